package tc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// A plan promises for the rate that it was made for. While a good part more come, executors
// take what waits, though no request is late yet; as soon as no more come than the plan is
// for, its promise is in force again, and never void before.
func TestPromiseIsVoidWhileMoreComeThanItIsFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 8).Draw(t, "batch")
		period := time.Duration(rapid.IntRange(100, 400).Draw(t, "period")) * ms
		planned := float64(batch) / period.Seconds()
		d := newDriver(t, Options{
			Early: EarlyWithinPromise, Rate: planned,
			Groups: []Group{{Batch: batch, Window: period, Duration: period / 3, Period: period}},
		})
		p := d.p.(*tc)
		d.execs[0] = &fakeExecutor{}
		d.step(dispatch.Event{Kind: dispatch.ExecutorUp})
		offer := func(rate float64, lasts time.Duration, each func()) {
			for end, at := d.now+lasts, d.now; at < end; at += time.Duration(1e9 / rate) {
				d.advance(at)
				d.nextID++
				r := dispatch.Request{ID: d.nextID, Arrival: at}
				d.waiting[r.ID] = r
				d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
				each()
			}
		}
		kept := func() { require.Zero(t, p.Void) }
		offer(planned, 6*time.Second, kept)
		offer(0.5*planned, 3*time.Second, kept)
		offer(1.05*planned, 6*time.Second, kept)
		offer(1.5*planned+2, 10*time.Second, func() {})
		assert.True(t, p.free())
		offer(planned, 30*time.Second, func() {})
		assert.False(t, p.free())
	})
}
