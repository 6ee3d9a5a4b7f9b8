package experiments

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// timesLarger is how many times as large as the paper's the pool is that is divided.
const timesLarger = 8

// partedPool is a pool in equal, independent parts: each kind of instance is dealt out
// evenly, a query goes to any part (POP, SOSP 2021, to which the Kairos paper points for
// large systems).
type partedPool struct {
	parts []dispatch.Policy
	armed []dispatch.Time // by part, when it wants to be woken
	of    map[dispatch.ExecutorID]int
	dealt map[int32]int // instances by kind
	went  map[dispatch.RequestID]int
	rng   *rand.Rand
}

func divide(parts []dispatch.Policy) *partedPool {
	d := &partedPool{parts: parts, of: map[dispatch.ExecutorID]int{}, dealt: map[int32]int{}, went: map[dispatch.RequestID]int{}, rng: rand.New(rand.NewPCG(1, 1))}
	for range parts {
		d.armed = append(d.armed, dispatch.Never)
	}
	return d
}

func (d *partedPool) Name() string {
	return fmt.Sprintf("%s in %d parts", d.parts[0].Name(), len(d.parts))
}
func (d *partedPool) Describe() string { return fmt.Sprintf("%s: %d waiting\n", d.Name(), d.Len()) }

func (d *partedPool) Len() (n int) {
	for _, p := range d.parts {
		n += p.Len()
	}
	return n
}

// Step hands an event to the part that it concerns, a timer to those that set it.
func (d *partedPool) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	switch ev.Kind {
	case dispatch.Timer:
		for k, at := range d.armed {
			if at <= now {
				d.armed[k] = dispatch.Never
				out = d.step(k, now, ev, out)
			}
		}
	case dispatch.Arrive:
		k := d.rng.IntN(len(d.parts))
		d.went[ev.Request.ID] = k
		out = d.step(k, now, ev, out)
	case dispatch.Cancel:
		k := d.went[ev.Request.ID]
		delete(d.went, ev.Request.ID)
		out = d.step(k, now, ev, out)
	case dispatch.ExecutorUp:
		k := d.dealt[ev.Group] % len(d.parts)
		d.dealt[ev.Group]++
		d.of[ev.Executor] = k
		out = d.step(k, now, ev, out)
	default:
		out = d.step(d.of[ev.Executor], now, ev, out)
	}
	next := dispatch.Never
	for _, at := range d.armed {
		next = min(next, at)
	}
	if next == dispatch.Never {
		return out
	}
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: next})
}

// step has a part act, and keeps back its timer.
func (d *partedPool) step(k int, now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	for _, a := range d.parts[k].Step(now, ev, nil) {
		if a.Act == dispatch.SetTimer {
			d.armed[k] = a.At
			continue
		}
		out = append(out, a)
	}
	return out
}

func divisionFigure() Figure {
	return Figure{ID: "kairos/division", Title: fmt.Sprintf("A pool for RM2 of %d times the paper's budget, divided into parts (section 5.1)", timesLarger), Seconds: 180,
		Layout:  Layout{Down: []string{"parts"}, Across: []string{Metric}},
		Picture: &Picture{Metric: "of the whole pool's", X: "parts", LogX: true, Footer: "Simulated; goodput at 99 % of the queries in time."}, Run: division}
}

func division(ctx context.Context, e *Env) (out Result, err error) {
	s, err := rm2(e)
	if err != nil {
		return out, err
	}
	small := s.Choice()
	counts := make([]int, len(small))
	for i, n := range small {
		counts[i] = timesLarger * n
	}
	large, parts := s.Trial(counts), []int{1, 2, 4, 8}
	queries := timesLarger * s.Load.Len() / 2
	if e.Quick {
		parts, queries = []int{1, 8}, queries/2
	}
	process, _, err := arrivals.Parse(steady)
	if err != nil {
		return out, err
	}
	load := pool.Draw(s.Load.Mix(), queries, process, 1)
	rates, pace := make([]float64, len(parts)), make([]float64, len(parts))
	err = e.Each(ctx, "Parts", len(parts), func(i int) (err error) {
		var wrong error
		made := func() dispatch.Policy {
			list := make([]dispatch.Policy, parts[i])
			for k := range list {
				p, err := factory.New(factory.Spec{Matching: &s.Matching})
				list[k], wrong = p, errors.Join(wrong, err)
			}
			return divide(list)
		}
		rates[i], err = s.Search.Goodput(large, made, load, timesLarger*s.Bound(small)*aboveBound)
		if err = errors.Join(err, wrong); err != nil {
			return err
		}
		begin := e.Now()
		_, err = s.Search.Sustains(large, made(), load, rates[i])
		pace[i] = float64(e.Now()-begin) / float64(time.Microsecond) / float64(load.Len())
		return err
	})
	for i, n := range parts {
		at := Set("parts", n)
		out.Add(at, "kairos", "goodput", "1/s", rates[i])
		out.Add(at, "kairos", "of the whole pool's", "", rates[i]/rates[0])
		if pace[i] > 0 {
			out.Add(at, "kairos", "processor time of a query", "µs", pace[i])
		}
	}
	out.Note("Instances %s, of each kind the same number in every part; queries go to any part, and none knows of the others. The paper names this way to grow, and prints no figure of it.", short(counts))
	return out, err
}
