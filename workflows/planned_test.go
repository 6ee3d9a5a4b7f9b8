package workflows

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// emulated is a world with as many devices of each kind as anybody will use.
func emulated(hardware []pipelines.Hardware) *world {
	w := newWorld(0)
	h := &w.fleet.Hosts[0]
	for _, kind := range hardware {
		n := kind.Count
		if n == 0 {
			n = 32
		}
		for i := range n {
			h.Devices = append(h.Devices, placement.Device{Host: h.Name, Name: fmt.Sprintf("%s/%d", kind.Name, i), Hardware: kind.Name, Memory: kind.Memory})
		}
	}
	return w
}

// applied is the status of a service of a document after all of them were applied
// together, in turn on the same fleet.
func applied(t *testing.T, w *world, specs []scheduler.Spec, one int) Status {
	spec := specs[one]
	fleet := w.fleet
	r := newRig(t, w)
	var got *reply
	var s Status
	r.at(0, func() {
		got = r.update(UpdateApply, ApplyRequest{Spec: spec, Beside: scheduler.Beside(specs, one)})
	})
	r.at(time.Minute, func() { s = r.status() })
	r.at(2*time.Minute, func() { fleet.Reserved = w.fleet.Reserved; r.update(UpdateDelete, "the test is over") })
	r.ExecuteWorkflow(TypeService, State{Kind: spec.Kind(), Name: spec.Name(), Settings: Settings{Fixed: true}})
	require.True(t, r.IsWorkflowCompleted())
	require.NoError(t, r.GetWorkflowError())
	require.NoError(t, got.rejected)
	require.Equal(t, Serving, s.Phase, s.Describe())
	return s
}

// planJSON is what plan --json and status --json print of a plan, but for how long
// it took to find it, and whether that was longer than a search for what serves may take,
// as on a crowded machine.
func planJSON(t *testing.T, p scheduler.Plan) string {
	var v any
	switch {
	case p.Pipeline != nil:
		one := *p.Pipeline
		one.SolveTime, one.CutShort = 0, false
		v = one
	case p.Pool != nil:
		v = p.Pool
	case p.Function != nil:
		one := *p.Function
		one.SolveTime = 0
		v = one
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// checkApplied applies the services of a document and compares what serves with the result
// of Solve for all of them, which plan prints.
func checkApplied(t *testing.T, doc pipelines.Document, policy, model string) {
	specs := scheduler.Specs(&doc)
	printed := scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{})
	w := emulated(doc.Hardware)
	for i, spec := range specs {
		if printed[i].Reason() != "" {
			continue // it cannot serve
		}
		s := applied(t, w, specs, i)
		assert.Equal(t, policy, s.Policy, spec.Name())
		assert.Equal(t, model, s.CostModel, spec.Name())
		if p := s.Plan.Pipeline; p != nil && p.CutShort {
			t.Logf("%s: the machine is too slow to plan in time: nothing to compare", spec.Name())
			continue
		}
		assert.InDelta(t, printed[i].CostPerHour(), s.Cost, 1e-9*(1+s.Cost), spec.Name())
		assert.JSONEq(t, planJSON(t, printed[i]), planJSON(t, *s.Plan), spec.Name())
	}
}

func example(t *testing.T, name string) pipelines.Document {
	c, diags := hcl.Load(hcl.LoadOptions{}, "../examples/"+name)
	require.False(t, diags.HasErrors(), "%v", diags)
	return c.Document
}

// What plan prints of several services is what serves when they are applied
// together, for every policy and cost model.
func TestWhatIsPlannedServes(t *testing.T) {
	for _, policy := range pipelines.Policies(scheduler.KindPipeline) {
		for _, model := range pipelines.CostModels() {
			t.Run(policy+"/"+model, func(t *testing.T) {
				lib, err := library.Document()
				require.NoError(t, err)
				if policy == plan.PolicyExact && model == plan.CostShared {
					testkit.Long(t)
					lib.Pipelines = lib.Pipelines[:2] // the joint search for all takes seconds
				}
				for _, doc := range []pipelines.Document{lib, example(t, "emulated")} {
					require.Empty(t, doc.Override(pipelines.Planning{Policy: policy, CostModel: model, AllowUnsound: true}))
					checkApplied(t, doc, policy, model)
				}
			})
		}
	}
	for _, policy := range pipelines.Policies(scheduler.KindPool) {
		t.Run("pool/"+policy, func(t *testing.T) {
			if policy != "kairos" { // the others evaluate many pools
				testkit.Long(t)
			}
			spec := ranking(2.5)
			spec.Pool.Plan.Policy = policy
			doc := pipelines.Document{Hardware: spec.Hardware, Pools: []pipelines.Pool{*spec.Pool}}
			checkApplied(t, doc, policy, "")
		})
	}
	for _, policy := range pipelines.Policies(scheduler.KindFunction) {
		t.Run("function/"+policy, func(t *testing.T) {
			doc := example(t, "functions")
			require.Empty(t, doc.Override(pipelines.Planning{Policy: policy}))
			checkApplied(t, doc, policy, "")
		})
	}
}

func TestAnUnsoundPlanServesOnlyWhereItIsAllowed(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		spec := unsound(t)
		spec.Pipeline.Plan.AllowUnsound = allowed
		r := newRig(t, emulated(spec.Hardware))
		var s Status
		r.at(0, func() { r.update(UpdateApply, ApplyRequest{Spec: spec}) })
		r.at(time.Minute, func() { s = r.status() })
		r.at(2*time.Minute, func() { r.update(UpdateDelete, "the test is over") })
		r.ExecuteWorkflow(TypeService, State{Kind: spec.Kind(), Name: spec.Name(), Settings: Settings{Fixed: true}})
		require.NoError(t, r.GetWorkflowError())
		if allowed {
			require.Equal(t, Serving, s.Phase, s.Describe())
			assert.Contains(t, s.Promise(), "not sound")
			continue
		}
		require.NotNil(t, s.Failure)
		assert.Contains(t, s.Failure.Reason, "is not sound")
		assert.Contains(t, s.Failure.Reason, "allow_unsound = true")
	}
}

// unsound is a pipeline of the library with a policy that promises what cannot be
// kept.
func unsound(t *testing.T) scheduler.Spec {
	for _, policy := range pipelines.Policies(scheduler.KindPipeline) {
		for _, model := range pipelines.CostModels() {
			doc, err := library.Document()
			require.NoError(t, err)
			require.Empty(t, doc.Override(pipelines.Planning{Policy: policy, CostModel: model}))
			if policy == plan.PolicyExact {
				continue
			}
			for _, spec := range scheduler.Specs(&doc) {
				p := scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{}, scheduler.Limits{})[0].Pipeline
				if p.Status != plan.Infeasible && !p.Sound {
					return spec
				}
			}
		}
	}
	t.Fatal("every plan of the library is sound")
	return scheduler.Spec{}
}
