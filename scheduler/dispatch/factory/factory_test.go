package factory

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

const ms = time.Millisecond

// pipelines.DispatchPolicies lists exactly the policies that are made here.
func TestTableIsThatOfDeclarations(t *testing.T) {
	var own Policies
	made := shared.Names()
	for _, p := range table() {
		made = append(made, p.Name)
	}
	assert.ElementsMatch(t, made, pipelines.Dispatches(pipelines.KindPipeline))
	assert.ElementsMatch(t, shared.Names(), pipelines.Dispatches(pipelines.KindCluster))
	for _, d := range pipelines.DispatchPolicies() {
		if d.For == pipelines.KindPipeline {
			assert.Equal(t, d.Groups, own.Groups(d.Name), d.Name)
			spec, err := own.Spec(Module{Policy: d.Name})
			require.NoError(t, err)
			assert.Equal(t, d.Groups, spec.Groups(), d.Name)
		}
	}
	assert.Equal(t, []string{"matching"}, pipelines.Dispatches(pipelines.KindPool))
	assert.Equal(t, []string{"grouped"}, pipelines.Dispatches(pipelines.KindFunction))
	assert.Equal(t, Default, pipelines.Dispatches(pipelines.KindPipeline)[0])
}

func TestPipelinesMayNameWhatCanServeThem(t *testing.T) {
	suits := func(name string) error { return Suits(pipelines.KindPipeline, name) }
	for _, name := range append(pipelines.Dispatches(pipelines.KindPipeline), "", "acme/fifo") {
		assert.NoError(t, suits(name), name)
	}
	assert.ErrorContains(t, suits("matching"), "Declare a pool block")
	assert.ErrorContains(t, suits("grouped"), "Declare a function block")
	assert.ErrorContains(t, suits("there-is-none"), `no dispatch policy "there-is-none"`)
	for _, name := range []string{"deferred:beta-lambda", "deferred:early,front-run", "deferred:head", "eager:window"} {
		assert.NoError(t, suits(name), name)
		assert.NoError(t, Suits(pipelines.KindCluster, name), name)
	}
	for _, name := range []string{"tc", "tc:ratio", "round-robin", "round-robin:batches"} {
		assert.ErrorContains(t, Suits(pipelines.KindCluster, name), "a cluster has none")
	}
	assert.ErrorContains(t, suits("deferred:betalambda"), `no variant "betalambda"`)
	assert.ErrorContains(t, suits("deferred:window,early"), "names two of")
	assert.ErrorContains(t, suits("adaptive:window"), "has no variants")
	assert.ErrorContains(t, suits("tc:ratio"), `write "round-robin:batches"`)
	assert.ErrorContains(t, suits("acme/fifo:window"), "has no variants")
	assert.ErrorContains(t, suits("deferred:"), `no variant ""`)
}

// A program brings policies of both kinds, and they are driven as what they are.
func TestPoliciesThatAProgramBrings(t *testing.T) {
	var got Module
	own := Policies{
		{Name: "acme/cut", Groups: func(m Module) (dispatch.Policy, error) { got = m; return tc.New(tc.Options{Groups: m.Groups}), nil }},
		{Name: "acme/any", Cluster: func(o shared.Options) (dispatch.Policy, error) { return shared.NewAdaptive(o), nil }},
	}
	require.NoError(t, own.Check())
	groups := []tc.Group{{Batch: 4, Window: 20 * ms, Duration: 40 * ms, Period: 40 * ms}}
	for name, cuts := range map[string]bool{"acme/cut": true, "acme/any": false} {
		assert.Equal(t, cuts, own.Groups(name))
		spec, err := own.Spec(Module{Policy: name, Groups: groups, SLO: 100 * ms, Rate: 50})
		require.NoError(t, err)
		assert.Equal(t, cuts, spec.Groups())
		text, err := json.Marshal(spec)
		require.NoError(t, err)
		var again Spec
		require.NoError(t, json.Unmarshal(text, &again))
		_, err = own.New(again)
		require.NoError(t, err)
		_, err = New(again)
		assert.ErrorContains(t, err, "no dispatch policy")
		_, err = Policies(nil).Spec(Module{Policy: name})
		assert.ErrorContains(t, err, "start the one that brings it")
	}
	assert.Equal(t, groups, got.Groups)
	_, err := own.New(Spec{Shared: &Shared{Name: "acme/cut"}})
	assert.ErrorContains(t, err, "a cluster has none")
	for _, bad := range []Policies{{{Name: "fifo", Cluster: own[1].Cluster}}, {{Name: "acme/fifo"}}, {own[0], own[0]}} {
		assert.Error(t, bad.Check())
	}
}

func TestEveryPolicyIsMade(t *testing.T) {
	groups := []tc.Group{
		{Batch: 4, Window: 20 * ms, Duration: 40 * ms, Period: 40 * ms},
		{Batch: 2, Window: 20 * ms, Duration: 30 * ms, Period: 40 * ms, Durations: []time.Duration{20 * ms, 30 * ms}},
	}
	build := func(m Module) (dispatch.Policy, error) {
		spec, err := Policies(nil).Spec(m)
		require.NoError(t, err)
		return New(spec)
	}
	for _, name := range append(pipelines.Dispatches(pipelines.KindPipeline), "deferred:beta-lambda,head", "eager:window") {
		p, err := build(Module{Policy: name, Groups: groups, SLO: 100 * ms, Rate: 50})
		require.NoError(t, err, name)
		assert.Equal(t, name, p.Name())
	}
	_, err := build(Module{Policy: "adaptive", Groups: groups, SLO: 25 * ms})
	assert.ErrorContains(t, err, "longer than the SLO")
	_, err = build(Module{Policy: "adaptive", SLO: time.Second})
	assert.ErrorContains(t, err, "give the durations")
	_, err = Policies(nil).Spec(Module{Policy: "matching"})
	assert.ErrorContains(t, err, "Declare a pool block")
	spec, err := Policies(nil).Spec(Module{Policy: "eager", Groups: groups, SLO: 100 * ms, MaxQueue: 7})
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
