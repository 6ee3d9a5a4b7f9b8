package rank

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// BenchmarkScheduler drives 64 models on 4,096 emulated executors as fast as
// they take requests, producers included. Run it with -cpu 1,2 to see what a
// second core brings.
func BenchmarkScheduler(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("models=64/workers=%d", workers), func(b *testing.B) { benchScheduler(b, 64, workers, 4096) })
	}
}

// ending is a batch that an emulated executor runs.
type ending struct {
	id dispatch.ExecutorID
	at time.Duration
}

func benchScheduler(b *testing.B, count, workers, executors int) {
	begin := time.Now()
	now := func() dispatch.Time { return time.Since(begin) }
	var all []dispatch.Model
	for range count {
		all = append(all, dispatch.Model{Durations: dispatch.Linear(1053*time.Microsecond, 5072*time.Microsecond, 128), SLO: 100 * ms})
	}
	var started, dropped, batches atomic.Int64
	ends := make(chan ending, executors)
	s, err := New(Options{
		Pool: dispatch.DeferredOptions{PoolOptions: dispatch.PoolOptions{Models: all}}, Workers: workers, Now: now,
		Start: func(id dispatch.ExecutorID, class int32, batch []dispatch.RequestID) {
			started.Add(int64(len(batch)))
			batches.Add(1)
			ends <- ending{id, now() + all[class].Durations[len(batch)-1]}
		},
		Drop: func(dispatch.RequestID, dispatch.Reason) { dropped.Add(1) },
	})
	require.NoError(b, err)
	for id := range executors {
		s.ExecutorUp(dispatch.ExecutorID(id))
	}
	quit := make(chan struct{})
	go emulate(s, now, ends, quit)
	b.ReportAllocs()
	b.ResetTimer()
	const chunk, backlog = 64, 8192
	requests := make([]dispatch.Request, chunk)
	for i := 0; i < b.N; i += chunk {
		at := now()
		for k := range requests {
			requests[k] = dispatch.Request{ID: dispatch.RequestID(i + k), Arrival: at, Deadline: at + 100*ms}
		}
		if s.Submit(int32(i/chunk%count), requests...) > backlog {
			time.Sleep(200 * time.Microsecond)
		}
	}
	for started.Load()+dropped.Load() < int64(b.N) {
		time.Sleep(100 * time.Microsecond)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(started.Load())/float64(max(1, batches.Load())), "batch")
	b.ReportMetric(float64(dropped.Load())/float64(b.N), "dropped")
	b.StopTimer()
	close(quit)
	s.Close()
}

// emulate frees executors when their batches are done, a millisecond's worth
// at a time.
func emulate(s *Scheduler, now func() dispatch.Time, ends chan ending, quit chan struct{}) {
	tick := time.NewTicker(ms)
	defer tick.Stop()
	var running []ending
	for {
		select {
		case <-quit:
			return
		case e := <-ends:
			running = append(running, e)
		case <-tick.C:
			t, kept := now(), running[:0]
			for _, e := range running {
				if e.at <= t {
					s.ExecutorFree(e.id)
				} else {
					kept = append(kept, e)
				}
			}
			running = kept
		}
	}
}
