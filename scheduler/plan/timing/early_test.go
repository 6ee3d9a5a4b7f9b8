package timing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

const ms = time.Millisecond

func TestWhatIsKeptForAModule(t *testing.T) {
	groups := []tc.Group{{Batch: 2, Duration: 30 * ms, Durations: []time.Duration{20 * ms, 30 * ms}}}
	m := &plan.Module{Budget: 55 * ms}
	assert.Equal(t, Kept{20 * ms, 55 * ms}, Keep("", m, groups))
	assert.Equal(t, Kept{20 * ms, 55 * ms}, Keep("tc", m, groups))
	assert.Equal(t, Kept{55 * ms, 55 * ms}, Keep("deferred", m, groups))
	assert.Equal(t, Kept{20 * ms, 20 * ms}, Keep("deferred", &plan.Module{}, groups))
	assert.Equal(t, Kept{20 * ms, 20 * ms}, Keep("deferred", nil, groups))
}

func TestEarlyStartsGoByThePromise(t *testing.T) {
	promised := &plan.Plan{Sound: true, Proof: plan.EveryRequest}
	even, random := &pipelines.Pipeline{}, &pipelines.Pipeline{Arrivals: "poisson"}
	assert.Equal(t, tc.EarlyWithinPromise, Early(true, even, promised))
	assert.Equal(t, tc.EarlyAlways, Early(true, random, promised))
	assert.Equal(t, tc.EarlyAlways, Early(true, even, &plan.Plan{Sound: true, Proof: plan.MeanRate}))
	assert.Equal(t, tc.EarlyAlways, Early(true, even, &plan.Plan{Proof: plan.EveryRequest}))
	assert.Equal(t, tc.EarlyNever, Early(false, random, promised))
}
