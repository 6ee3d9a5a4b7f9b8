package shared

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// BenchmarkStep measures one core: requests per second through Step on 1,000
// executors at nine tenths of what they can do, all events included (arrivals, ends of
// batches, timers); drawing the arrivals is not. Symphony's own code does 0.4 to 0.5
// million a second there, load generation included.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"adaptive", "deferred", "eager"} {
		for _, models := range []int{1, 20, 256, 1024} {
			b.Run(fmt.Sprintf("%s/models=%d/executors=1000", name, models), func(b *testing.B) { benchStep(b, name, models, 1000) })
		}
		for _, executors := range []int{1, 64, 4096} {
			b.Run(fmt.Sprintf("%s/models=20/executors=%d", name, executors), func(b *testing.B) { benchStep(b, name, 20, executors) })
		}
	}
}

func benchStep(b *testing.B, name string, models, executors int) {
	var o Options
	for range models {
		o.Models = append(o.Models, Model{Durations: Linear(1053*time.Microsecond, 5072*time.Microsecond, 128), SLO: 100 * ms})
	}
	p, err := New(name, o)
	if err != nil {
		b.Fatal(err)
	}
	s := newStream(p, executors, models, 0.9*750*float64(executors))
	s.play(300_000) // queues and buffers reach their size
	b.ReportAllocs()
	b.ResetTimer()
	s.play(b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(s.served)/float64(max(1, s.starts)), "batch")
}

// stream drives a policy with prepared arrivals and counts as little as it can.
type stream struct {
	p       dispatch.Policy
	gaps    []dispatch.Time
	classes []int32
	i       int
	now     dispatch.Time
	timer   dispatch.Time
	ends    dispatch.Agenda
	took    []dispatch.Time
	actions []dispatch.Action
	served  int
	starts  int
}

func newStream(p dispatch.Policy, executors, models int, rate float64) *stream {
	const prepared = 1 << 16
	rng := rand.New(rand.NewPCG(1, 2))
	s := &stream{p: p, timer: never, ends: dispatch.NewAgenda(executors), took: Linear(1053*time.Microsecond, 5072*time.Microsecond, 128), actions: make([]dispatch.Action, 0, 256)}
	for range prepared {
		s.gaps = append(s.gaps, dispatch.Time(rng.ExpFloat64()/rate*1e9))
		s.classes = append(s.classes, int32(rng.IntN(models)))
	}
	for id := range executors {
		s.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id)})
	}
	return s
}

func (s *stream) play(n int) {
	for range n {
		k := s.i & (len(s.gaps) - 1)
		s.i++
		at := s.now + s.gaps[k]
		for next := min(s.ends.Next(), s.timer); next <= at; next = min(s.ends.Next(), s.timer) {
			s.now = next
			if s.timer == next {
				s.timer = never
				s.step(dispatch.Event{Kind: dispatch.Timer})
				continue
			}
			id := s.ends.Top()
			s.ends.Drop(id)
			s.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(id)})
		}
		s.now = at
		s.step(dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(s.i), Class: s.classes[k], Arrival: at, Deadline: at + 100*ms}})
	}
}

func (s *stream) step(ev dispatch.Event) {
	s.actions = s.p.Step(s.now, ev, s.actions[:0])
	for i := range s.actions {
		switch a := &s.actions[i]; a.Act {
		case dispatch.SetTimer:
			s.timer = a.At
		case dispatch.Start:
			s.ends.Set(int32(a.Executor), s.now+s.took[len(a.Batch)-1])
			s.starts++
			s.served += len(a.Batch)
		}
	}
}
