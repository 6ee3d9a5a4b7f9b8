package recording

import (
	"bytes"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
)

// Replayed is what came of deciding a station's recording again.
type Replayed struct {
	Station    string
	Policies   []string // in charge, in order, each once for every part
	Steps      int      // that were decided again
	Actions    int
	From, To   dispatch.Time
	Difference *Difference // nil where all actions are the same
	Batches    []Batch     // as recorded
}

// Difference is the first step whose actions are not those that were recorded.
type Difference struct {
	Step     int // of the station, from 0
	Now      dispatch.Time
	Event    dispatch.Event
	Recorded *dispatch.Action // the first action that differs; nil where there were fewer
	Decided  *dispatch.Action
	State    string // of the policy after the step, as it describes itself
}

// Batch is one batch that was recorded.
type Batch struct {
	Executor   dispatch.ExecutorID
	Group      int32
	Class      int32
	Size       int
	Start, End dispatch.Time // End is the end of the recording where the batch was still running
}

// Replay makes the policies of a station again, feeds them the recorded events, and
// compares their actions. It stops at the first difference. The error reports a part that
// cannot be replayed, such as one of a program's own policy that is not among own.
func Replay(s Station, own ...factory.Policy) (Replayed, error) {
	r := replay{Replayed: Replayed{Station: s.Name}, own: own, running: map[dispatch.ExecutorID][]int{}}
	for i, part := range s.Parts {
		if err := r.part(part); err != nil {
			return r.Replayed, fmt.Errorf("station %s, part %d of %d: %w", s.Name, i+1, len(s.Parts), err)
		}
		if r.Difference != nil {
			break
		}
	}
	for _, all := range r.running {
		for _, i := range all {
			r.Batches[i].End = r.To
		}
	}
	return r.Replayed, nil
}

type replay struct {
	Replayed
	own     factory.Policies
	running map[dispatch.ExecutorID][]int // batches by executor, in the order of their starts
	out     []dispatch.Action
}

func (r *replay) part(part Part) (err error) {
	if part.Spec == (factory.Spec{}) {
		return fmt.Errorf("this harpagon does not have its policy; replay it with the version that recorded it")
	}
	policy, err := r.own.New(part.Spec)
	if err != nil {
		return err
	}
	if part.State != nil {
		if err := restore(part.State, policy); err != nil {
			return err
		}
	}
	r.Policies = append(r.Policies, policy.Name())
	defer func() { // what a policy remembers may be anything in a file that was made by hand
		if p := recover(); p != nil {
			err = fmt.Errorf("step %d: policy %s cannot go on from its recorded state: %v", r.Steps, r.Policies[len(r.Policies)-1], p)
		}
	}()
	in := codec{b: part.Steps, reading: true}
	for len(in.b) > 0 && r.Difference == nil {
		var step Step
		if in.step(&step); in.err != nil {
			return fmt.Errorf("step %d: %w", r.Steps, in.err)
		}
		r.step(policy, step)
	}
	return nil
}

func (r *replay) step(policy dispatch.Policy, s Step) {
	if r.Steps == 0 {
		r.From = s.Now
	}
	r.To = max(r.To, s.Now)
	r.note(s)
	r.out = policy.Step(s.Now, s.Event, r.out[:0])
	for i := range max(len(s.Actions), len(r.out)) {
		if recorded, decided := nth(s.Actions, i), nth(r.out, i); !same(recorded, decided) {
			r.Difference = &Difference{Step: r.Steps, Now: s.Now, Event: s.Event, Recorded: recorded, Decided: decided, State: policy.Describe()}
			return
		}
	}
	r.Steps++
	r.Actions += len(s.Actions)
}

// note follows the recorded batches.
func (r *replay) note(s Step) {
	if id := s.Event.Executor; s.Event.Kind == dispatch.ExecutorFree || s.Event.Kind == dispatch.ExecutorGone {
		for k, i := range r.running[id] {
			if r.Batches[i].End = s.Now; s.Event.Kind == dispatch.ExecutorFree {
				r.running[id] = r.running[id][k+1:]
				break
			}
		}
		if s.Event.Kind == dispatch.ExecutorGone {
			delete(r.running, id)
		}
	}
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Act == dispatch.Start {
			r.running[a.Executor] = append(r.running[a.Executor], len(r.Batches))
			r.Batches = append(r.Batches, Batch{Executor: a.Executor, Group: a.Group, Class: a.Class, Size: len(a.Batch), Start: max(s.Now, a.At)})
		}
	}
}

func nth(actions []dispatch.Action, i int) *dispatch.Action {
	if i >= len(actions) {
		return nil
	}
	a := actions[i]
	return &a
}

func same(a, b *dispatch.Action) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y codec
	x.action(a)
	y.action(b)
	return bytes.Equal(x.b, y.b)
}

// Describe returns the outcome in a few lines.
func (r Replayed) Describe() string {
	text := fmt.Sprintf("%s: %d steps and %d actions decided again, %v to %v", r.Station, r.Steps, r.Actions, r.From.Round(time.Millisecond), r.To.Round(time.Millisecond))
	if r.Difference == nil {
		return text + ": the same\n"
	}
	return text + "\n" + r.Difference.Describe()
}

// Describe reports what was recorded and what was decided.
func (d Difference) Describe() string {
	say := func(a *dispatch.Action) string {
		if a == nil {
			return "nothing more"
		}
		return a.String()
	}
	return fmt.Sprintf("  differs at %v, step %d: %v\n    recorded: %s\n    decided:  %s\n    the policy then:\n%s", d.Now, d.Step, d.Event, say(d.Recorded), say(d.Decided), d.State)
}
