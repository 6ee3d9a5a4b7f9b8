package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// What devices of a module's own wait less than they may, its group on a shared device
// may collect for longer than its window: the processor-demand test agrees.
func TestTheRestOfAStreamIsCollectedInTime(t *testing.T) {
	longer := 0
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(5, 500).Draw(t, "rate")
		own := plan.Config{Batch: rapid.IntRange(1, 32).Draw(t, "batch")}
		n := rapid.IntRange(1, 20).Draw(t, "devices")
		ofOwn := rate * rapid.Float64Range(0.05, 0.99).Draw(t, "share")
		gap := float64(own.Batch) / ofOwn
		own.Duration = plan.ToDuration(gap * float64(n))
		budget := own.Duration + plan.SingleMargin(rate) + plan.ToDuration(gap*rapid.Float64Range(1, 40).Draw(t, "budget"))
		m := &plan.ModuleProblem{Rate: rate}
		t1 := plan.Allocation{Config: own, Machines: float64(n), Rate: ofOwn, Period: plan.ToDuration(gap)}
		r := restOf(m.Rate, &t1, budget)
		window := plan.ToDuration(gap * rapid.Float64Range(0.01, 40).Draw(t, "window"))
		period := r.period(window)
		if period <= 0 {
			return
		}
		if period > window {
			longer++
		}
		require.LessOrEqual(t, r.window(period), window+2, "the shortest window for it")
		residual := rate - ofOwn
		verdict := demand.Test(rate, []demand.Group{
			{Batch: float64(own.Batch), Period: t1.Period.Seconds(), Window: (budget - r.margin - own.Duration).Seconds()},
			{Batch: residual * period.Seconds(), Period: period.Seconds(), Window: (window - r.margin + 10*time.Nanosecond).Seconds()},
		})
		require.True(t, verdict.Sound, verdict.Describe())
	})
	assert.NotZero(t, longer)
	assert.Equal(t, 5*time.Second, rest{}.period(5*time.Second), "a group alone collects for its window")
}
