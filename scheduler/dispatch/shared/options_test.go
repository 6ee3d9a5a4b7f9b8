package shared

import (
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

func TestNewPoolRefusesBadOptions(t *testing.T) {
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
	assert.ErrorContains(t, err, `no pool policy "fastest"; choose one of adaptive, clockwork, deferred, eager, nexus`)
	for _, name := range Names() {
		p, err := New(name, Options{Models: []Model{good}})
		require.NoError(t, err)
		assert.Equal(t, name, p.Name())
		assert.Contains(t, p.Describe(), name)
	}
}

// The constructors mend what Check refuses: nothing here may panic or hang.
func TestPoolsMendImpossibleOptions(t *testing.T) {
	for _, build := range []func(Options) dispatch.Policy{NewAdaptive, NewEager, NewNexus,
		func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o}) },
		func(o Options) dispatch.Policy { return NewClockwork(ClockworkOptions{Options: o}) }} {
		for _, o := range []Options{{}, {Models: []Model{{}}}, {Models: []Model{{Durations: []time.Duration{-1, 5, 3}, SLO: -5, Rate: -3}}, Margin: -1}} {
			p := build(o)
			p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: -1}, nil)
			p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Group: 9}, nil)
			for id := range dispatch.RequestID(20) {
				p.Step(dispatch.Time(id), arrive(id, dispatch.Time(id), 0), nil)
			}
			p.Step(time.Hour, dispatch.Event{Kind: dispatch.Timer}, nil)
			p.Step(time.Hour, dispatch.Event{Kind: dispatch.ExecutorFree}, nil)
		}
	}
}
