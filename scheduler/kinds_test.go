package scheduler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Of every kind, a spec and its plan report their name, and JSON has the field of that kind
// alone.
func TestKinds(t *testing.T) {
	specs := map[Kind]Spec{
		KindPipeline: {Pipeline: &pipelines.Pipeline{Name: "a"}},
		KindPool:     {Pool: &pipelines.Pool{Name: "a"}},
		KindFunction: {Function: &pipelines.Function{Name: "a"}},
		KindCluster:  {Cluster: &pipelines.Cluster{Name: "a"}},
	}
	plans := map[Kind]Plan{
		KindPipeline: {Pipeline: &plan.Plan{Pipeline: "a", Policy: "p", CostModel: "m", Cost: 2, Reason: "why", Status: plan.Infeasible, CutShort: true}},
		KindPool:     {Pool: &pool.Plan{Pool: "a", Policy: "p", Cost: 2, Reason: "why", Status: pool.Infeasible}},
		KindFunction: {Function: &functions.Plan{Function: "a", Policy: "p", CostPerRequest: 2, Rate: 1.0 / 3600, Reason: "why", Status: functions.Infeasible, CutShort: true}},
		KindCluster:  {Cluster: &cluster.Plan{Cluster: "a", Cost: 2, Reason: "why", Status: cluster.Infeasible, CutShort: true}},
	}
	require.Len(t, specs, len(Kinds()))
	for _, kind := range Kinds() {
		s, p := specs[kind], plans[kind]
		assert.Equal(t, kind, s.Kind())
		assert.Equal(t, "a", s.Name(), kind)
		of, name := p.Planned().Of()
		assert.Equal(t, kind, of)
		assert.Equal(t, "a", name, kind)
		assert.Equal(t, "why", p.Reason(), kind)
		assert.Equal(t, kind != KindPool, p.Unfinished(), kind)
		assert.InDelta(t, 2, p.CostPerHour(), 1e-9, kind)
		assert.Contains(t, p.Describe(), "infeasible: why", kind)
		policy, model := p.Policy()
		assert.Equal(t, map[Kind]string{KindPipeline: "p", KindPool: "p", KindFunction: "p", KindCluster: cluster.Policy}[kind], policy)
		assert.Equal(t, kind == KindPipeline, model == "m", kind)
		whole, err := json.Marshal(p)
		require.NoError(t, err)
		one, err := json.Marshal(p.Planned())
		require.NoError(t, err)
		field := map[Kind]string{KindPipeline: "Pipeline", KindPool: "Pool", KindFunction: "Function", KindCluster: "Cluster"}[kind]
		assert.JSONEq(t, `{"`+field+`":`+string(one)+`}`, string(whole), kind)
	}
	assert.Equal(t, []string{"a"}, plans[KindPipeline].Planned().Models())
	assert.Equal(t, []string{"a"}, plans[KindPool].Planned().Models())
	shared := functions.Plan{Function: "a", Groups: []functions.Group{{Applications: []functions.Share{{Name: "x"}, {Name: "y"}}}}}
	assert.Equal(t, []string{"a/x", "a/y"}, shared.Models())
	assert.Equal(t, []string{"x"}, cluster.Plan{Pipelines: []cluster.Pipeline{{Name: "x"}}}.Models())
}

// What declares nothing is planned to nothing, beside what does.
func TestNoService(t *testing.T) {
	assert.Empty(t, Spec{}.Kind())
	assert.Empty(t, Spec{}.Name())
	assert.Zero(t, Spec{}.Rate(Plan{}))
	assert.Equal(t, []Plan{{}, {}}, Solve([]Spec{{}, {}}, Fleet{}, Limits{}))
	assert.Nil(t, Plan{}.Planned())
	assert.Empty(t, Plan{}.Reason())
	assert.Equal(t, "no plan\n", Plan{}.Describe())
}
