package exact

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// manyKinds is a problem of so many modules on twelve kinds of hardware each, none of which
// is much cheaper than another: the worst for enumerating mixtures.
func manyKinds(modules int, stop func() bool) *wholeProblem {
	ready := &plan.Prepared{Pipeline: &pipelines.Pipeline{SLO: time.Minute}, Options: plan.Options{Stop: stop}}
	for i := range modules {
		m := &plan.ModuleProblem{Name: fmt.Sprint("m", i), Rate: 3000}
		for k := range 12 {
			m.Configs = append(m.Configs, plan.Config{
				Hardware: fmt.Sprint("h", k), Batch: 8, Duration: time.Duration(80+k) * time.Millisecond, Concurrency: 1, Weight: 1 + float64(k)/50,
			})
		}
		ready.Modules = append(ready.Modules, m)
	}
	return newWhole(ready)
}

// TestEnumeratingIsBounded counts the steps of a problem that needs more than there are,
// and of one that is stopped. No mixture below a module's limit is missing all the same.
func TestEnumeratingIsBounded(t *testing.T) {
	const dearest, budget = 50, time.Second
	enumerate := func(p *wholeProblem) {
		for _, w := range p.Modules {
			w.enumerate(dearest, budget)
		}
	}
	one := manyKinds(1, nil)
	enumerate(one)
	each, whole := maxSteps-one.steps.left, one.Modules[0]
	t.Logf("%d steps of %d for one module: %d mixtures below %v", each, maxSteps, len(whole.mixtures), whole.limit)
	assert.Greater(t, each, maxCounted)
	check := func(p *wholeProblem) (complete int) {
		for _, w := range p.Modules {
			if w.limit > w.relaxed(budget) {
				assert.Equal(t, whole.limit, w.limit)
				assert.Len(t, w.mixtures, len(whole.mixtures))
				complete++
				continue
			}
			assert.Empty(t, w.mixtures)
		}
		return complete
	}
	assert.Equal(t, 1, check(one))

	p := manyKinds(100, nil)
	p.steps.left = 5*each + each/2
	enumerate(p)
	assert.LessOrEqual(t, p.steps.left, 0)
	assert.Greater(t, p.steps.left, -boundSteps)
	assert.Equal(t, 5, check(p))

	looks := 0
	ended := manyKinds(100, nil)
	ended.steps.ended = func() bool { looks++; return looks > 3 }
	enumerate(ended)
	assert.Equal(t, 4, looks, "nothing is done afterwards")
	assert.Zero(t, check(ended))
}
