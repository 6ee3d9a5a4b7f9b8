package experiments

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestPromisesRecover: when a device has been away for a second, the promise is kept again
// within twenty seconds, though the plan has no time to spare.
func TestPromisesRecover(t *testing.T) {
	played := 0
	for seed := uint64(0); played < 8; seed++ {
		d := drawing{Rand: rand.New(rand.NewPCG(seed, 1))}
		problems, o := d.problems()
		asked, most := 0, int(d.scale(50, mostAsked))
		o.Stop = func() bool { asked++; return asked > most }
		plans := policies.SolveAll(problems, o)
		if !provesAll(plans) || len(plans[0].Devices) == 0 {
			continue
		}
		played++
		var loads []simulate.Load
		for _, p := range problems {
			loads = append(loads, simulate.Load{Pipeline: p.Pipeline, Rate: p.Pipeline.Rate})
		}
		r, err := simulate.OnPlans(loads, plans, simulate.Options{
			Eager: true, MaxQueue: maxKept, Warmup: 22 * time.Second, Duration: 10 * time.Second,
			Outages: []simulate.Outage{{Device: 0, From: 2 * time.Second, To: 3 * time.Second}},
		})
		require.NoError(t, err)
		for _, p := range r.Pipelines {
			assert.Equal(t, p.Requests, p.Completed, "draw %d, pipeline %s", seed, p.Pipeline)
		}
	}
}
