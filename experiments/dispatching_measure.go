package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Effort states how closely to look.
type Effort struct {
	Requests  float64 // in every run, about
	Each      float64 // to every model at least, however few are its own, as far as mostRequests go
	Seeds     int
	Tolerance float64 // of goodput
}

// Full is what the tables of the documents are made with.
func Full() Effort { return Effort{Requests: 150_000, Each: 8_000, Seeds: 1, Tolerance: 0.004} }

// Quick is what a look takes.
func Quick() Effort { return Effort{Requests: 8_000, Each: 1_000, Seeds: 1, Tolerance: 0.03} }

// Bounds of a run.
const (
	leastSLOs = 60.0 // a run lasts that many SLOs at least
	warmSLOs  = 20.0 // before it
	giveUp    = 4.0  // times the misses that are allowed end a run
	overload  = 3.0  // times the goodput

	mostRequests = 2_000_000 // in a run

	leastShare = 0.01 // of Bound: a policy that does not reach it has no goodput
	closely    = 4.0
)

// Measured is how a policy did in a setting.
type Measured struct {
	Policy   string
	Goodput  float64
	Batch    float64
	Overload float64 // requests in time at three times the goodput, as a share of it
}

// Measure finds the goodput of a pool policy, and what is left of it under
// overload. Stop ends it early, with simulate.ErrStopped.
func (s *DispatchSetting) Measure(policy string, e Effort, stop func() bool) (Measured, error) {
	m := Measured{Policy: policy}
	run := func(rate float64, seed uint64) (simulate.Result, error) {
		o := s.options(policy, rate, e, stop)
		o.Seed = seed
		o.GiveUp = int64(giveUp*(1-simulate.DefaultAttainment)*rate*o.Duration.Seconds()) + 1000
		r, err := s.play(policy, rate, o)
		if s.Pooled && err == nil {
			total := r.Total()
			r.Pipelines = []simulate.PipelineResult{{Counts: total, Attainment: float64(total.Completed) / float64(max(1, total.Requests))}}
		}
		return r, err
	}
	search := simulate.Search{Tolerance: e.Tolerance, Seeds: e.Seeds, Seed: 1, Start: s.Bound() / 2}
	if s.Seeds > e.Seeds { // a setting to be known closely
		search.Seeds, search.Tolerance = s.Seeds, e.Tolerance/closely
	}
	if r, err := run(leastShare*s.Bound(), 1); err != nil {
		return m, err
	} else if r.Least() < simulate.DefaultAttainment {
		return m, nil // no goodput to speak of
	}
	found, err := simulate.FindGoodput(run, search)
	if err != nil || found.Rate == 0 {
		return m, err
	}
	m.Goodput = found.Rate
	at, err := s.play(policy, found.Rate, s.options(policy, found.Rate, e, stop))
	if err != nil {
		return m, err
	}
	m.Batch = meanBatch(at)
	over, err := s.play(policy, overload*found.Rate, s.options(policy, overload*found.Rate, e, stop))
	m.Overload = float64(over.Total().Completed) / over.Duration.Seconds() / found.Rate
	return m, err
}

// meanBatch is over all batches of a run.
func meanBatch(r simulate.Result) float64 {
	var served, batches float64
	for _, p := range r.Pipelines {
		for _, m := range p.Modules {
			served += m.MeanBatch * float64(m.Batches)
			batches += float64(m.Batches)
		}
	}
	return served / max(1, batches)
}

func (s *DispatchSetting) pool() []simulate.Devices {
	return []simulate.Devices{{Hardware: deviceKind, Count: s.Devices}}
}

func (s *DispatchSetting) options(policy string, rate float64, e Effort, stop func() bool) simulate.Options {
	slo := 0.0
	for _, n := range s.Models {
		slo = max(slo, n.SLO/1000)
	}
	requests := max(e.Requests, min(mostRequests, e.Each/slices.Min(s.weights())))
	duration := max(requests/rate, leastSLOs*slo)
	o := simulate.Options{
		Dispatch: policy, Duration: seconds(duration), Warmup: seconds(warmSLOs * slo),
		Seed: 1, Delay: simulate.FixedDelay(s.Delay), Noise: s.Noise, Stop: stop,
	}
	return o
}

// play is a run at that total rate.
func (s *DispatchSetting) play(policy string, rate float64, o simulate.Options) (simulate.Result, error) {
	loads := s.Loads(rate)
	name, frontends := severalFrontends(policy)
	switch {
	case policy == shepherd:
		models, delay := make([]shared.Model, len(s.Models)), dispatch.Delay{}
		if s.Delay != (dispatch.Delay{}) {
			delay, o.Delay = shepherdDelays(), simulate.DrawnDelay{}
		}
		for i, n := range s.Models {
			models[i] = shared.Model{Durations: n.Table(largestBatch), SLO: millis(n.SLO)}
			loads[i].Pipeline = n.instant().pipeline(i)
		}
		o.Policy = func(shared.Options) (dispatch.Policy, error) { return newFlex(models, delay), nil }
	case frontends > 1:
		o.Policy = func(p shared.Options) (dispatch.Policy, error) {
			p.Margin = s.kept(policy)
			return shared.NewNexus(shared.NexusOptions{Options: p, Frontends: frontends}), nil
		}
	case policy == clockwork:
		o.Policy = func(p shared.Options) (dispatch.Policy, error) {
			p.Margin = s.kept(policy)
			return shared.NewClockwork(shared.ClockworkOptions{Options: p, Sizes: s.Sizes}), nil
		}
	case s.kept(policy) > 0:
		o.Policy = func(p shared.Options) (dispatch.Policy, error) {
			p.Margin = s.kept(policy)
			return shared.New(policy, p)
		}
	}
	o.Dispatch = name
	return simulate.OnCluster(loads, s.pool(), o)
}

func (s *DispatchSetting) kept(policy string) time.Duration {
	if s.Kept == nil {
		return 0
	}
	return s.Kept(policy)
}

// severalFrontends takes "nexus, 8 frontends" apart.
func severalFrontends(policy string) (name string, frontends int) {
	name, _, _ = strings.Cut(policy, ", ")
	if _, err := fmt.Sscanf(policy, ofFrontends, &frontends); err != nil {
		return policy, 1
	}
	return name, frontends
}

const (
	ofFrontends = "nexus, %d frontends"
	nexusEight  = "nexus, 8 frontends"
)

func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * 1e9)) }

// Physical bounds the goodput of any dispatcher, even with all arrivals known beforehand,
// for a setting of one model, Poisson arrivals and no delays: the rate at which upperLimit
// falls to 99 %.
func (s *DispatchSetting) Physical(e Effort) (float64, error) {
	n := s.Models[0]
	low, high := s.Bound()/2, s.Bound()
	for high-low > e.Tolerance*high {
		rate := (low + high) / 2
		r, err := upperLimit(limitProblem{
			Arrivals: poisson(rate, int(e.Requests*limitShare)), Durations: n.Table(largestBatch), SLO: millis(n.SLO), Executors: s.Devices,
		}, limitOptions{})
		if err != nil {
			return 0, err
		}
		if r.Attainment >= simulate.DefaultAttainment {
			low = rate
		} else {
			high = rate
		}
	}
	return high, nil
}

// limitShare of the requests of a run are enough for the bound, which takes
// long.
const limitShare = 0.03

func poisson(rate float64, n int) []time.Duration {
	p := arrivals.Process{Kind: pipelines.ArrivalsPoisson}
	stream := p.Stream(rate, math.MaxInt64, rand.New(rand.NewPCG(1, 2)))
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = stream.Next()
	}
	return list
}

// Pace is how fast a policy decides, with everything around it on the same
// core: drawing the arrivals, running the devices, counting.
type Pace struct {
	Rate  float64 // requests per second of processor time
	Batch float64 // mean
}

// The pool of Pace: networks with an SLO at which batches are long, at most of
// what the devices can do.
const (
	paceSLO  = 100.0 // milliseconds
	paceLoad = 0.8
)

// Speed measures the pace over so many requests. Clock reads processor time.
func Speed(policy string, models, devices int, requests float64, clock func() time.Duration) (Pace, error) {
	s := DispatchSetting{Models: alike(models, paceSLO), Devices: devices, Shape: 1}
	rate := paceLoad * s.Bound()
	o := simulate.Options{Dispatch: policy, Duration: seconds(requests / rate), Seed: 1}
	begin := clock()
	r, err := simulate.OnCluster(s.Loads(rate), s.pool(), o)
	if err != nil {
		return Pace{}, err
	}
	took := clock() - begin
	total := r.Total()
	return Pace{Rate: float64(total.Requests) / max(took.Seconds(), 1e-9), Batch: meanBatch(r)}, nil
}
