package flow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

const milli = time.Millisecond

func TestWhatIsKeptForAModule(t *testing.T) {
	groups := []tc.Group{{Batch: 2, Duration: 30 * milli, Durations: []time.Duration{20 * milli, 30 * milli}}}
	m := &plan.Module{Budget: 55 * milli}
	assert.Equal(t, KeptWindows{20 * milli, 55 * milli}, KeepWindows(true, m, groups))
	assert.Equal(t, KeptWindows{55 * milli, 55 * milli}, KeepWindows(false, m, groups))
	assert.Equal(t, KeptWindows{20 * milli, 20 * milli}, KeepWindows(false, &plan.Module{}, groups))
	assert.Equal(t, KeptWindows{20 * milli, 20 * milli}, KeepWindows(false, nil, groups))
}

func TestEarlyStartsGoByThePromise(t *testing.T) {
	promised := &plan.Plan{Sound: true, Proof: plan.EveryRequest}
	even, random := &pipelines.Pipeline{}, &pipelines.Pipeline{Arrivals: "poisson"}
	assert.Equal(t, tc.EarlyWithinPromise, EarlyStart(true, even, promised))
	assert.Equal(t, tc.EarlyAlways, EarlyStart(true, random, promised))
	assert.Equal(t, tc.EarlyAlways, EarlyStart(true, even, &plan.Plan{Sound: true, Proof: plan.NoProof}))
	assert.Equal(t, tc.EarlyAlways, EarlyStart(true, even, &plan.Plan{Proof: plan.EveryRequest}))
	assert.Equal(t, tc.EarlyNever, EarlyStart(false, random, promised))
}
