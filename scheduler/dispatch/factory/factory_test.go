package factory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

const ms = time.Millisecond

func TestPipelinesMayNameWhatCanServeThem(t *testing.T) {
	assert.Equal(t, pipelines.Dispatches(), Names(), "a declaration and the dispatcher know the same policies")
	for _, name := range append(Names(), "") {
		assert.NoError(t, Suits(name), name)
	}
	assert.ErrorContains(t, Suits("matching"), "Declare a pool block")
	assert.ErrorContains(t, Suits("grouped"), "Declare a function block")
	assert.ErrorContains(t, Suits("fifo"), `no dispatch policy "fifo"`)
	for _, name := range []string{"deferred:beta-lambda", "deferred:early,front-run", "deferred:head", "eager:window"} {
		assert.NoError(t, Suits(name), name)
	}
	assert.ErrorContains(t, Suits("deferred:betalambda"), `no variant "betalambda"`)
	assert.ErrorContains(t, Suits("deferred:window,early"), "names two of")
	assert.ErrorContains(t, Suits("adaptive:window"), "has no variants")
	assert.ErrorContains(t, Suits("deferred:"), `no variant ""`)
}

func TestEveryPolicyIsMade(t *testing.T) {
	groups := []tc.Group{
		{Batch: 4, Window: 20 * ms, Duration: 40 * ms, Period: 40 * ms},
		{Batch: 2, Window: 20 * ms, Duration: 30 * ms, Period: 40 * ms, Durations: []time.Duration{20 * ms, 30 * ms}},
	}
	build := func(m Module) (dispatch.Policy, error) {
		spec, err := m.Spec()
		require.NoError(t, err)
		return New(spec)
	}
	for _, name := range append(Names(), "deferred:beta-lambda,head", "eager:window") {
		p, err := build(Module{Policy: name, Groups: groups, SLO: 100 * ms, Rate: 50})
		require.NoError(t, err, name)
		assert.Equal(t, name, p.Name())
	}
	_, err := build(Module{Policy: "adaptive", Groups: groups, SLO: 25 * ms})
	assert.ErrorContains(t, err, "longer than the SLO")
	_, err = build(Module{Policy: "adaptive", SLO: time.Second})
	assert.ErrorContains(t, err, "give the durations")
	_, err = Module{Policy: "matching"}.Spec()
	assert.ErrorContains(t, err, "Declare a pool block")
	spec, err := Module{Policy: "eager", Groups: groups, SLO: 100 * ms, MaxQueue: 7}.Spec()
	require.NoError(t, err)
	assert.Equal(t, 7, spec.Shared.MaxQueue)
	assert.Equal(t, [][]time.Duration{{40 * ms, 40 * ms, 40 * ms, 40 * ms}, {20 * ms, 30 * ms}}, spec.Shared.Models[0].Groups)
}

func TestSpecsOfOtherServices(t *testing.T) {
	_, err := New(Spec{})
	assert.ErrorContains(t, err, "no dispatch policy is given")
	_, err = New(Spec{Grouped: &grouped.Options{}})
	assert.ErrorContains(t, err, "at least one group")
	_, err = New(Spec{Matching: &matching.Options{}})
	assert.ErrorContains(t, err, "at least one type")
	p, err := New(Spec{Grouped: &grouped.Options{Groups: []grouped.Group{{Batch: 2, Applications: []grouped.Application{{}}}}}})
	require.NoError(t, err)
	assert.Equal(t, "grouped", p.Name())
}
