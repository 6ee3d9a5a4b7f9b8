package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// What people do to workflows in Temporal's UI. A service whose workflow is cancelled is
// deleted. One that was terminated is started again by a control role with its last state
// (control.Keeper), and then checks what still runs, as does one that was reset. Executors
// that were ended are reported by gateways; see Missing.

// Why a service looks what runs.
const (
	anew       = "the fleet's workflow was started again"
	reset      = "its workflow was reset"
	Terminated = "its workflow was terminated"
)

// patchMend marks services that check what people have ended; older ones wait for other
// events.
const patchMend = "ended by people"

func mends(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchMend, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// endWith has the service deleted when somebody cancels its workflow.
func (s *service) endWith(ctx, asked workflow.Context) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		asked.Done().Receive(ctx, nil)
		s.requestStop(StopDelete, "its workflow was cancelled")
	})
}

// wasReset notes that somebody has reset the workflow. Gateways may serve later generations
// of this life than its state has.
func (s *service) wasReset(ctx workflow.Context) {
	if Reset(ctx, &s.run) {
		s.Astray, s.Renewed = reset, true
	}
}

// state is all that another run needs to go on from here. What is under way is done again.
func (s *service) state() State {
	all := s.State
	all.Pending = all.Pending || s.changing
	if all.Stop == "" {
		all.Stop = s.Stopping
	}
	return all
}

// missing receives the executors that a gateway waits for, and checks whether they will
// return.
func (s *service) missing(ctx workflow.Context, m Missing) {
	delete(s.Missing, m.Gateway)
	if len(m.Executors) == 0 {
		return
	}
	if s.Missing == nil {
		s.Missing = map[string]Missing{}
	}
	s.Missing[m.Gateway] = m
	var ids []string
	for _, r := range s.Running {
		if _, over := s.Ended[r.Workflow]; !over && slices.Contains(m.Executors, r.Slot.Executor) {
			ids = append(ids, r.Workflow)
		}
	}
	if len(ids) == 0 || s.examines {
		return
	}
	s.examines = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.examines = false }()
		var fleet *activities.Fleet
		var over map[string]string
		summary := fmt.Sprintf("look at %d executors that gateway %s waits for", len(ids), m.Gateway)
		if err := workflow.ExecuteActivity(fleetOptions(ctx, summary), fleet.Examine, ids).Get(ctx, &over); err != nil {
			workflow.GetLogger(ctx).Warn("whether executors return is unknown", "error", err)
			return
		}
		for _, id := range workflow.DeterministicKeys(over) {
			s.Ended[id] = over[id]
		}
	})
}

// absent are the executors of what serves that a gateway waits for.
func (s *service) absent() (names []string) {
	for _, gateway := range workflow.DeterministicKeys(s.Missing) {
		if m := s.Missing[gateway]; m.Generation == s.servingGeneration() {
			names = append(names, m.Executors...)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { // it is lost already
		return !slices.ContainsFunc(s.Running, func(r Running) bool { return r.Slot.Executor == name })
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// hearAgain notes an executor as ended when told, a signal to its workflow, cannot be
// delivered.
func (s *service) hearAgain(ctx workflow.Context, r Running, told workflow.Future) {
	if !mends(ctx) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if told.Get(ctx, nil) != nil {
			s.Ended[r.Workflow] = "its workflow has ended"
		}
	})
}

// takeStock finds out what runs when the service's state may be wrong, and goes on from
// there: with what runs of what it has reserved. What else runs of it is ended.
func (s *service) takeStock(ctx workflow.Context) {
	cause, id := s.Astray, ServiceID(s.Kind, s.Name)
	s.Astray = ""
	s.endTrial(ctx)
	in := activities.StockInput{Service: id, Known: map[string]string{}, Under: rescheduleID(s.Name, s.Attempts)}
	for _, r := range s.Running {
		in.Known[r.Slot.Executor] = r.Workflow
	}
	var fleet *activities.Fleet
	var stock activities.Stock
	err := workflow.ExecuteActivity(fleetOptions(ctx, "look what runs: "+cause), fleet.TakeStock, in).Get(ctx, &stock)
	before := len(s.Running)
	if err == nil {
		s.Running = slices.DeleteFunc(s.Running, func(r Running) bool { _, over := stock.Over[r.Workflow]; return over })
		for _, slot := range stock.View.Reserved[id] {
			if w := stock.Found[slot.Executor]; w != "" {
				s.Running = append(s.Running, Running{Slot: slot, Workflow: w})
			}
		}
		all := activities.Reservation{Service: id, Slots: slotsOf(s.Running)}
		err = workflow.ExecuteActivity(fleetOptions(ctx, fmt.Sprintf("reserve the %d slots that are in use", len(all.Slots))), fleet.Reserve, all).Get(ctx, &stock.View)
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("what runs is not known", "cause", cause, "error", err)
		s.Astray = cause // again
		return
	}
	var strays []Running
	for _, w := range stock.Strays {
		strays = append(strays, Running{Workflow: w})
	}
	cancelExecutors(ctx, strays)
	known := s.Gateways
	s.Met, s.Gateways = true, stock.View.Gateways()
	s.meet(slices.DeleteFunc(stock.View.Gateways(), func(g activities.Member) bool { return slices.Contains(known, g) })...)
	changed := s.Renewed || before != len(s.Running) || len(stock.Found) > 0
	if s.Renewed {
		s.Life, s.Renewed = stock.View.Version, false
	}
	switch {
	case s.Pending:
		s.Generation++ // gateways may have some of the one that was under way
	case changed && s.Serving != nil:
		s.again(ctx, cause)
	}
}

// interrupted reports that somebody has ended the workflow of a change, or of a measurement for
// it; empty where it has failed by itself, with an error of its own (activities.Failed).
func interrupted(err error) string {
	switch {
	case errors.As(err, new(*temporal.TerminatedError)):
		return "the workflow of the change was terminated"
	case errors.As(err, new(*temporal.CanceledError)):
		return "the workflow of the change was cancelled"
	}
	return ""
}
