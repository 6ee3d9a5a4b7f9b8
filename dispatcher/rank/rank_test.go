package rank

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

const ms = time.Millisecond

func models(n int) []shared.Model {
	var all []shared.Model
	for range n {
		all = append(all, shared.Model{Durations: shared.Linear(ms, 5*ms, 32), SLO: 50 * ms})
	}
	return all
}

// books keeps account of what a scheduler does.
type books struct {
	t         *testing.T
	mu        sync.Mutex
	scheduler *Scheduler
	running   map[dispatch.ExecutorID]bool
	class     map[dispatch.RequestID]int32 // that wait
	due       map[dispatch.RequestID]time.Duration
	started   int
	dropped   int
	batches   int
	since     time.Time
}

func (b *books) now() dispatch.Time { return time.Since(b.since) }

func (b *books) start(id dispatch.ExecutorID, class int32, batch []dispatch.RequestID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.False(b.t, b.running[id], "executor %d is busy", id)
	b.running[id] = true
	took := 5*ms + time.Duration(len(batch))*ms
	for _, r := range batch {
		c, waits := b.class[r]
		assert.True(b.t, waits, "request %d ended twice", r)
		assert.Equal(b.t, class, c)
		assert.LessOrEqual(b.t, b.now()+took, b.due[r])
		delete(b.class, r)
	}
	b.started += len(batch)
	b.batches++
	time.AfterFunc(took, func() {
		b.mu.Lock()
		b.running[id] = false
		b.mu.Unlock()
		b.scheduler.ExecutorFree(id)
	})
}

func (b *books) drop(r dispatch.RequestID, _ dispatch.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.class[r]
	assert.True(b.t, waits, "request %d ended twice", r)
	delete(b.class, r)
	b.dropped++
}

func (b *books) submit(class int32, id dispatch.RequestID) {
	now := b.now()
	b.mu.Lock()
	b.class[id], b.due[id] = class, now+50*ms
	b.mu.Unlock()
	b.scheduler.Submit(class, dispatch.Request{ID: id, Arrival: now, Deadline: now + 50*ms})
}

// TestEveryRequestEndsOnce runs 7 models on 5 executors and 3 workers for two
// seconds of a simulated clock, with executors that come and go.
func TestEveryRequestEndsOnce(t *testing.T) {
	for policy, batch := range map[string]float64{"adaptive": 3, "deferred": 5, "eager": 1} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runAll(t, policy, batch) })
		})
	}
}

func runAll(t *testing.T, policy string, batch float64) {
	b := newBooks(t)
	s, err := New(Options{Policy: policy, Pool: shared.Options{Models: models(7)}, Workers: 3, Now: b.now, Start: b.start, Drop: b.drop})
	require.NoError(t, err)
	b.scheduler = s
	for id := range dispatch.ExecutorID(5) {
		require.NoError(t, s.ExecutorUp(id, 0))
	}
	const n = 4000
	for i := range n {
		b.submit(int32(i%7), dispatch.RequestID(i))
		time.Sleep(500 * time.Microsecond)
		if i%300 == 150 {
			s.ExecutorGone(4)
		}
		if i%300 == 250 { // longer than its batch may last
			require.NoError(t, s.ExecutorUp(4, 0))
		}
	}
	time.Sleep(time.Second)
	s.Close()
	assert.Equal(t, n, b.started+b.dropped)
	assert.Empty(t, b.class)
	assert.Greater(t, b.started, n*98/100, "the pool has room for all")
	assert.Greater(t, float64(b.started)/float64(b.batches), batch, "batches are held back")
}

// TestExecutorsGoWhereTheyAreNeeded gives all requests to the model of one
// worker, whose own executors could not serve them.
func TestExecutorsGoWhereTheyAreNeeded(t *testing.T) {
	for _, policy := range []string{"adaptive", "deferred", "eager"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBooks(t)
			s, err := New(Options{Policy: policy, Pool: shared.Options{Models: models(4)}, Workers: 4, Now: b.now, Start: b.start, Drop: b.drop})
			require.NoError(t, err)
			b.scheduler = s
			for id := range dispatch.ExecutorID(8) {
				require.NoError(t, s.ExecutorUp(id, 0))
			}
			const n = 4000 // 4 a millisecond; one executor can do 0.85, and each worker begins with two
			for i := range n {
				b.submit(int32(i/2000), dispatch.RequestID(i))
				time.Sleep(250 * time.Microsecond)
			}
			time.Sleep(time.Second)
			s.Close()
			assert.Equal(t, n, b.started+b.dropped)
			assert.Greater(t, b.started, n*98/100, policy)
		})
	}
}

func newBooks(t *testing.T) *books {
	return &books{t: t, running: map[dispatch.ExecutorID]bool{}, class: map[dispatch.RequestID]int32{}, due: map[dispatch.RequestID]time.Duration{}, since: time.Now()}
}

func TestCancelledRequestsDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(t)
		s, err := New(Options{Policy: "deferred", Pool: shared.Options{Models: models(1)}, Workers: 4, Now: b.now, Start: b.start, Drop: b.drop})
		require.NoError(t, err)
		b.scheduler = s
		require.NoError(t, s.ExecutorUp(0, 0))
		b.submit(0, 1)
		b.submit(0, 2)
		s.Cancel(0, dispatch.Request{ID: 1})
		time.Sleep(time.Second)
		s.Close()
		assert.Equal(t, 1, b.started)
		assert.Contains(t, b.class, dispatch.RequestID(1))
	})
}

func TestNewRefusesBadOptions(t *testing.T) {
	b := &books{}
	good := Options{Pool: shared.Options{Models: models(1)}, Workers: 1, Now: b.now, Start: b.start, Drop: b.drop}
	for name, spoil := range map[string]func(*Options){
		"policy":     func(o *Options) { o.Policy = "nexus" },
		"no workers": func(o *Options) { o.Workers = 0 },
		"no clock":   func(o *Options) { o.Now = nil },
		"no models":  func(o *Options) { o.Pool.Models = nil },
		"delay":      func(o *Options) { o.Pool.Delay.Control = 1 },
	} {
		o := good
		spoil(&o)
		_, err := New(o)
		assert.Error(t, err, name)
	}
}
