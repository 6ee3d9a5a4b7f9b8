package rank

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// splitCost is what workers that exchange executors may serve less than one
// policy over all, as a share of the requests.
const splitCost = 0.01

const splitTime = 0.2 // seconds of arrivals, at least

// TestSplitServesAsMuch compares workers with one policy over all models and
// executors, below, near and far above what it can serve. Run
// it with -v for the shares served.
func TestSplitServesAsMuch(t *testing.T) {
	for _, policy := range []string{"adaptive", "deferred"} {
		for _, c := range []struct{ models, executors int }{{8, 8}, {16, 64}, {64, 128}} {
			for _, rate := range []float64{700, 780, 1300} { // per executor
				whole := served(t, policy, c.models, c.executors, 1, rate)
				halves := served(t, policy, c.models, c.executors, 2, rate)
				quarters := served(t, policy, c.models, c.executors, 4, rate)
				t.Logf("%-8s %3d models %3d executors %4.0f req/s each: served %.4f, by two workers %.4f, by four %.4f",
					policy, c.models, c.executors, rate, whole, halves, quarters)
				assert.Greater(t, halves, whole-splitCost)
			}
		}
	}
}

// served is the share of Poisson arrivals that is served in time.
func served(t *testing.T, policy string, count, executors, workers int, rate float64) float64 {
	n := max(10_000, int(rate*float64(executors)*splitTime))
	var done int
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		now := func() dispatch.Time { return time.Since(begin) }
		took := shared.Linear(ms, 5*ms, 64)
		var all []shared.Model
		for range count {
			all = append(all, shared.Model{Durations: took, SLO: 50 * ms, Rate: rate * float64(executors) / float64(count)})
		}
		ok := make(chan int, 1<<16)
		var s *Scheduler
		start := func(id dispatch.ExecutorID, _ int32, batch []dispatch.RequestID) {
			ok <- len(batch)
			time.AfterFunc(took[len(batch)-1], func() { s.ExecutorFree(id) })
		}
		s, err := New(Options{Policy: policy, Pool: shared.Options{Models: all}, Workers: workers, Now: now, Start: start, Drop: func(dispatch.RequestID, dispatch.Reason) {}})
		require.NoError(t, err)
		for id := range executors {
			require.NoError(t, s.ExecutorUp(dispatch.ExecutorID(id), 0))
		}
		rng := rand.New(rand.NewPCG(1, 2))
		at := dispatch.Time(0)
		for i := range n {
			at += dispatch.Time(rng.ExpFloat64() / (rate * float64(executors)) * 1e9)
			time.Sleep(at - now())
			class := int32(rng.IntN(count))
			s.Submit(class, dispatch.Request{ID: dispatch.RequestID(i), Arrival: at, Deadline: at + 50*ms})
		}
		time.Sleep(time.Second)
		s.Close()
		close(ok)
		for b := range ok {
			done += b
		}
	})
	return float64(done) / float64(n)
}
