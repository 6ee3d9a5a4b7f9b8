package shared

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// vclock plays a cluster of executors and a stream of requests on a virtual
// clock, without delays and without noise, and counts what becomes of them.
type vclock struct {
	p       dispatch.Policy
	models  []Model
	execs   int
	rate    float64 // requests per second over all models
	weights []float64
	shape   float64 // of gamma gaps; 1 is Poisson
	seed    uint64
	warm    time.Duration // not counted
	horizon time.Duration
	slower  float64 // gaps are that many times as long from slowAt on; 0 for never
	slowAt  dispatch.Time

	now     dispatch.Time
	timer   dispatch.Time
	ends    dispatch.Agenda
	busy    dispatch.Time
	batches int
	starts  int
	waited  []dispatch.Time // for batches, of the requests that count
	left    dispatch.Time   // until the first deadline, at least, when batches ended that began after the last arrival
	actions []dispatch.Action
	dueOf   []dispatch.Time
	measure []bool
	classes []int32 // of the requests
	seen    []int   // that count, by model
	kept    []int   // in time, likewise
}

// least is the attainment of the model that has the lowest, of those with requests, after a run.
func (v *vclock) least() float64 {
	least := 1.0
	for m, n := range v.seen {
		if n > 0 {
			least = min(least, float64(v.kept[m])/float64(n))
		}
	}
	return least
}

func (v *vclock) run() (attainment float64) {
	rng := rand.New(rand.NewPCG(v.seed, 0xabcdabcd987))
	v.timer, v.ends = never, dispatch.NewAgenda(v.execs)
	v.seen, v.kept = make([]int, len(v.models)), make([]int, len(v.models))
	for i := range v.execs {
		v.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(i)})
	}
	next := dispatch.NewAgenda(len(v.models))
	gaps := make([]float64, len(v.models))
	for m := range v.models {
		w := 1.0
		if v.weights != nil {
			w = v.weights[m]
		} else {
			w = 1 / float64(len(v.models))
		}
		gaps[m] = 1e9 / (v.rate * w)
		next.Set(int32(m), dispatch.Time(rng.Float64()*gaps[m]))
	}
	if v.shape == 0 {
		v.shape = 1
	}
	for {
		m := next.Top()
		at := next.Next()
		if at > v.warm+v.horizon {
			break
		}
		v.advance(at)
		v.now = at
		id := dispatch.RequestID(len(v.dueOf))
		due := at + v.models[m].SLO
		v.dueOf = append(v.dueOf, due)
		v.measure = append(v.measure, at >= v.warm)
		v.classes = append(v.classes, m)
		if at >= v.warm {
			v.seen[m]++
		}
		v.step(dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Class: m, Arrival: at, Deadline: due}})
		gap := gaps[m]
		if v.slower > 0 && at >= v.slowAt {
			gap *= v.slower
		}
		next.Set(m, at+max(1, dispatch.Time(gamma(rng, v.shape)*gap)))
	}
	v.left = never
	v.advance(v.now + 10*time.Second)
	seen, kept := 0, 0
	for m := range v.models {
		seen, kept = seen+v.seen[m], kept+v.kept[m]
	}
	return float64(kept) / float64(seen)
}

func (v *vclock) advance(limit dispatch.Time) {
	for {
		at := min(v.ends.Next(), v.timer)
		if at > limit || at == never {
			return
		}
		v.now = at
		if v.ends.Next() == at {
			id := v.ends.Top()
			v.ends.Drop(id)
			v.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(id)})
			continue
		}
		v.timer = never
		v.step(dispatch.Event{Kind: dispatch.Timer})
	}
}

func (v *vclock) step(ev dispatch.Event) {
	v.actions = v.p.Step(v.now, ev, v.actions[:0])
	for _, a := range v.actions {
		switch a.Act {
		case dispatch.SetTimer:
			v.timer = a.At
		case dispatch.Start:
			l := newProfile(v.models[a.Class].Durations).of(len(a.Batch))
			v.ends.Set(int32(a.Executor), v.now+l)
			v.starts++
			v.left = min(v.left, v.dueOf[a.Batch[0]]-v.now-l)
			v.batches += len(a.Batch)
			v.busy += l
			for _, id := range a.Batch {
				if !v.measure[id] {
					continue
				}
				v.waited = append(v.waited, v.now+v.models[a.Class].SLO-v.dueOf[id])
				if v.now+l <= v.dueOf[id] {
					v.kept[v.classes[id]]++
				}
			}
		}
	}
}

// gamma draws from the gamma distribution with mean 1 (Marsaglia and Tsang).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return r.ExpFloat64()
	}
	boost := 1.0
	k := shape
	if k < 1 {
		boost = math.Pow(1-r.Float64(), 1/k)
		k++
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		t := 1 + c*x
		if t <= 0 {
			continue
		}
		t = t * t * t
		if u := 1 - r.Float64(); math.Log(u) < x*x/2+d-d*t+d*math.Log(t) {
			return d * t * boost / shape
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
