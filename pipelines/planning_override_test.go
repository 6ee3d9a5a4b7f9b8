package pipelines

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOverride(t *testing.T) {
	merge := Planning{Policy: "harpagon", CostModel: "whole", Without: []string{"merge"}, Split: "even", AllowUnsound: true}
	for name, test := range map[string]struct {
		kind              Kind
		declared, by, get Planning
	}{
		"nothing is given":           {KindPipeline, merge, Planning{}, merge},
		"another cost model":         {KindPipeline, merge, Planning{CostModel: "shared"}, Planning{Policy: "harpagon", CostModel: "shared", Without: []string{"merge"}, Split: "even", AllowUnsound: true}},
		"the same policy":            {KindPipeline, merge, Planning{Policy: "harpagon"}, merge},
		"another policy":             {KindPipeline, merge, Planning{Policy: "nexus"}, Planning{Policy: "nexus", CostModel: "whole", AllowUnsound: true}},
		"the default by its name":    {KindPipeline, Planning{Without: []string{"batch"}}, Planning{Policy: "exact"}, Planning{Policy: "exact", Without: []string{"batch"}}},
		"steps of no policy":         {KindPipeline, Planning{}, Planning{Without: []string{"merge"}}, Planning{Policy: "harpagon", Without: []string{"merge"}}},
		"steps of the declared one":  {KindPipeline, merge, Planning{Without: []string{"tc"}}, Planning{Policy: "harpagon", CostModel: "whole", Without: []string{"tc"}, Split: "even", AllowUnsound: true}},
		"a policy of pools":          {KindPipeline, merge, Planning{Policy: "kairos"}, merge},
		"a pool's":                   {KindPool, Planning{}, Planning{Policy: "kairos", CostModel: "whole"}, Planning{Policy: "kairos"}},
		"what a pool does not know":  {KindPool, Planning{Policy: "kairos"}, Planning{Policy: "harpagon"}, Planning{Policy: "kairos"}},
		"what all know, of a pool":   {KindPool, Planning{Policy: "kairos"}, Planning{Policy: "exact"}, Planning{Policy: "exact"}},
		"what a function knows well": {KindFunction, Planning{}, Planning{Policy: "mbs+", Split: "lc"}, Planning{Policy: "mbs+"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.get, test.declared.Override(test.kind, test.by)) })
	}
}

func TestOverridesThatFitNothing(t *testing.T) {
	pipe, pool := Pipeline{Name: "p"}, Pool{Name: "q"}
	for name, test := range map[string]struct {
		doc     Document
		by      Planning
		path    string
		problem string
	}{
		"no such policy":         {Document{Pools: []Pool{pool}}, Planning{Policy: "best"}, "policy", `there is no policy "best"; for pools there is exact, kairos, homogeneous, kairos+`},
		"of another kind":        {Document{Pools: []Pool{pool}}, Planning{Policy: "mbs+"}, "policy", `policy "mbs+" plans functions, and none is declared; for pools there is exact, kairos, homogeneous, kairos+`},
		"a cost model of a pool": {Document{Pools: []Pool{pool}}, Planning{CostModel: "whole"}, "cost_model", "cost_model is for pipelines, and none is declared."},
		"against each other":     {Document{Pipelines: []Pipeline{pipe}}, Planning{Policy: "nexus", Split: "lc"}, "split", `pipeline "p": Policy nexus has one way to divide the objective; leave out split "lc", or take policy harpagon.`},
		"against the block":      {Document{Pipelines: []Pipeline{{Name: "p", Plan: Planning{Policy: "clipper"}}}}, Planning{Without: []string{"tc"}}, "without", `pipeline "p": Policy clipper has no steps to switch off; take policy harpagon for those.`},
	} {
		t.Run(name, func(t *testing.T) {
			found := test.doc.Override(test.by)
			require.Len(t, found, 1)
			assert.Equal(t, test.path, found[0].Attribute)
			assert.Equal(t, test.problem, found[0].Detail)
		})
	}
	both := Document{Pipelines: []Pipeline{pipe}, Pools: []Pool{pool}}
	assert.Empty(t, both.Override(Planning{Policy: "kairos", CostModel: "whole"}))
	assert.Equal(t, Planning{CostModel: "whole"}, both.Pipelines[0].Plan)
	assert.Equal(t, Planning{Policy: "kairos"}, both.Pools[0].Plan)
}

func TestConcurrencies(t *testing.T) {
	several := []int{1, 2, 4}
	for _, c := range []struct {
		p    Planning
		want []int
	}{
		{Planning{}, []int{1}},
		{Planning{Concurrency: true}, several},
		{Planning{Policy: "piccolo"}, several},
		{Planning{Policy: "scrooge"}, several},
		{Planning{Policy: "piccolo", Without: []string{"concurrency"}}, []int{1}},
		{Planning{Policy: "nexus"}, []int{1}},
	} {
		assert.Equal(t, c.want, c.p.Concurrencies(), c.p)
	}
}
