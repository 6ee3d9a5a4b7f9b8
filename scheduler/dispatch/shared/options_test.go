package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const ms = time.Millisecond

func arrive(id dispatch.RequestID, at, deadline dispatch.Time) dispatch.Event {
	return dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Arrival: at, Deadline: deadline}}
}

func TestNewRefusesBadOptions(t *testing.T) {
	good := Model{Durations: Linear(ms, 5*ms, 4), SLO: 30 * ms}
	for message, o := range map[string]Options{
		"at least one model":    {},
		"must not be negative":  {Models: []Model{good}, Margin: -1},
		"give an SLO above":     {Models: []Model{{Durations: good.Durations}}},
		"model 1: give a rate":  {Models: []Model{good, {Durations: good.Durations, SLO: ms, Rate: -1}}},
		"give the durations":    {Models: []Model{{SLO: ms}}},
		"a batch of 2 must be":  {Models: []Model{{Durations: []time.Duration{ms, 0}, SLO: ms}}},
		"longer than the SLO":   {Models: []Model{{Durations: Linear(ms, 5*ms, 4), SLO: 5 * ms}}},
		"delays and margin of ": {Models: []Model{good}, Delay: dispatch.Delay{PerRequest: -1}},
	} {
		_, err := New("adaptive", o)
		assert.ErrorContains(t, err, message)
	}
	_, err := New("fastest", Options{Models: []Model{good}})
	assert.ErrorContains(t, err, `no dispatch policy "fastest" for clusters; choose one of `+strings.Join(Names(), ", "))
	for _, name := range Names() {
		p, err := New(name, Options{Models: []Model{good}})
		require.NoError(t, err)
		assert.Equal(t, name, p.Name())
		assert.Contains(t, p.Describe(), name)
	}
}

// The constructors mend what Check refuses: whatever the options, each request
// waits or has one outcome, and no executor is given work that is not up.
func TestNewMendsImpossibleOptions(t *testing.T) {
	for name, build := range map[string]func(Options) dispatch.Policy{"adaptive": NewAdaptive, "eager": newEager, "nexus": func(o Options) dispatch.Policy { return NewNexus(NexusOptions{Options: o, Frontends: 3}) },
		"clockwork": func(o Options) dispatch.Policy { return NewClockwork(ClockworkOptions{Options: o, Sizes: AnySize}) },
		"deferred":  func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o}) }} {
		for i, o := range []Options{{}, {Models: []Model{{}}}, {Models: []Model{{Durations: []time.Duration{-1, 5, 3}, SLO: -5, Rate: -3}}, Margin: -1}} {
			const requests = 20
			p := build(o)
			ended := map[dispatch.RequestID]int{}
			step := func(at dispatch.Time, e dispatch.Event) {
				for _, a := range p.Step(at, e, nil) {
					switch a.Act {
					case dispatch.Drop:
						ended[a.Request]++
					case dispatch.Start:
						assert.NotEmpty(t, a.Batch, "%s %d", name, i)
						assert.Equal(t, dispatch.ExecutorID(0), a.Executor, "%s %d: the only one that is up", name, i)
						for _, id := range a.Batch {
							ended[id]++
						}
					}
				}
			}
			step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: -1})
			step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Group: 9})
			for id := range dispatch.RequestID(requests) {
				step(dispatch.Time(id), arrive(id, dispatch.Time(id), 0))
			}
			step(time.Hour, dispatch.Event{Kind: dispatch.Timer})
			step(time.Hour, dispatch.Event{Kind: dispatch.ExecutorFree})
			for id, n := range ended {
				assert.Equal(t, 1, n, "%s %d: outcomes of request %d", name, i, id)
				assert.Less(t, id, dispatch.RequestID(requests), "%s %d: it arrived", name, i)
			}
			assert.Equal(t, requests, len(ended)+p.Len(), "%s %d: each waits or has an outcome", name, i)
		}
	}
}
