package rank

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// TestExecutorsOnManyCores has a busy, uneven pool exchange executors while
// they leave and come back, with goroutines that do run at the same time. The
// clock advances with the arrivals.
func TestExecutorsOnManyCores(t *testing.T) {
	for _, policy := range []string{"adaptive", "deferred", "eager"} {
		t.Run(policy, func(t *testing.T) { runParallel(t, policy) })
	}
}

func runParallel(t *testing.T, policy string) {
	const executors, count, n = 24, 9, 30_000
	took := shared.Linear(ms, 5*ms, 32)
	var clock atomic.Int64
	now := func() dispatch.Time { return dispatch.Time(clock.Load()) }
	var running [executors]atomic.Bool
	var ended [n]atomic.Int32
	type end struct {
		id dispatch.ExecutorID
		at dispatch.Time
	}
	var mu sync.Mutex
	var ends []end
	start := func(id dispatch.ExecutorID, _ int32, batch []dispatch.RequestID) {
		if running[id].Swap(true) {
			t.Errorf("executor %d is busy", id)
		}
		for _, r := range batch {
			ended[r].Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, end{id, now() + took[len(batch)-1]})
	}
	drop := func(r dispatch.RequestID, _ dispatch.Reason) { ended[r].Add(1) }
	s, err := New(Options{Policy: policy, Pool: shared.Options{Models: models(count)}, Workers: 3, Now: now, Start: start, Drop: drop})
	require.NoError(t, err)
	defer s.Close()
	for id := range executors {
		require.NoError(t, s.ExecutorUp(dispatch.ExecutorID(id), 0))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var away []dispatch.ExecutorID
	free := func() {
		mu.Lock()
		defer mu.Unlock()
		kept := ends[:0]
		for _, e := range ends {
			if e.at > now() {
				kept = append(kept, e)
				continue
			}
			running[e.id].Store(false)
			if rng.IntN(20) > 0 {
				s.ExecutorFree(e.id)
				continue
			}
			s.ExecutorGone(e.id) // with its batch done, so that it may come back at any time
			away = append(away, e.id)
		}
		ends = kept
		if len(away) > 4 {
			require.NoError(t, s.ExecutorUp(away[0], 0))
			away = away[1:]
		}
	}
	for i := range n {
		at := now() + 60*time.Microsecond
		class := int32(rng.IntN(count))
		if i/2000%2 == 0 {
			class = class / 3 * 3 // the models of one worker
		}
		s.Submit(class, dispatch.Request{ID: dispatch.RequestID(i), Arrival: at, Deadline: at + 50*ms})
		clock.Store(int64(at))
		free()
		if i%16 == 0 {
			runtime.Gosched()
		}
	}
	for i := range ended { // what waits is served or dropped when its time is up
		for ended[i].Load() == 0 {
			clock.Add(int64(ms))
			free()
			s.Submit(0, dispatch.Request{ID: 0, Arrival: 0, Deadline: 1})
			for w := range s.workers {
				s.workers[w].box.nudge()
			}
			runtime.Gosched()
		}
	}
	for i := range ended[1:] {
		if got := ended[i+1].Load(); got != 1 {
			t.Fatalf("request %d ended %d times", i+1, got)
		}
	}
	moved := 0
	for id := range dispatch.ExecutorID(executors) {
		if s.owners.of(id) != int32(id)%3 {
			moved++
		}
	}
	assert.Positive(t, moved, "no executor was exchanged")
}
