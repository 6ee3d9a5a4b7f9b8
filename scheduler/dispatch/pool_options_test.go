package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewPoolRefusesBadOptions(t *testing.T) {
	good := Model{Durations: Linear(ms, 5*ms, 4), SLO: 30 * ms}
	for message, o := range map[string]PoolOptions{
		"at least one model":    {},
		"must not be negative":  {Models: []Model{good}, Margin: -1},
		"give an SLO above":     {Models: []Model{{Durations: good.Durations}}},
		"model 1: give a rate":  {Models: []Model{good, {Durations: good.Durations, SLO: ms, Rate: -1}}},
		"give the durations":    {Models: []Model{{SLO: ms}}},
		"a batch of 2 must be":  {Models: []Model{{Durations: []time.Duration{ms, 0}, SLO: ms}}},
		"longer than the SLO":   {Models: []Model{{Durations: Linear(ms, 5*ms, 4), SLO: 5 * ms}}},
		"delays and margin of ": {Models: []Model{good}, Delay: Delay{PerRequest: -1}},
	} {
		_, err := NewPool("adaptive", o)
		assert.ErrorContains(t, err, message)
	}
	_, err := NewPool("fastest", PoolOptions{Models: []Model{good}})
	assert.ErrorContains(t, err, `no pool policy "fastest"; choose one of adaptive, clockwork, deferred, eager, nexus`)
	for _, name := range PoolNames() {
		p, err := NewPool(name, PoolOptions{Models: []Model{good}})
		require.NoError(t, err)
		assert.Equal(t, name, p.Name())
		assert.Contains(t, p.Describe(), name)
	}
}

// The constructors mend what Check refuses: nothing here may panic or hang.
func TestPoolsMendImpossibleOptions(t *testing.T) {
	for _, build := range []func(PoolOptions) Policy{NewAdaptive, NewEager, NewNexus,
		func(o PoolOptions) Policy { return NewDeferred(DeferredOptions{PoolOptions: o}) },
		func(o PoolOptions) Policy { return NewClockwork(ClockworkOptions{PoolOptions: o}) }} {
		for _, o := range []PoolOptions{{}, {Models: []Model{{}}}, {Models: []Model{{Durations: []time.Duration{-1, 5, 3}, SLO: -5, Rate: -3}}, Margin: -1}} {
			p := build(o)
			p.Step(0, Event{Kind: ExecutorUp, Executor: -1}, nil)
			p.Step(0, Event{Kind: ExecutorUp, Group: 9}, nil)
			for id := range RequestID(20) {
				p.Step(Time(id), arrive(id, Time(id), 0), nil)
			}
			p.Step(time.Hour, Event{Kind: Timer}, nil)
			p.Step(time.Hour, Event{Kind: ExecutorFree}, nil)
		}
	}
}
