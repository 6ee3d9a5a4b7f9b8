package plan

import (
	"math"
	"time"
)

// scheduler schedules one module: the inputs that stay the same while budgets
// and dummy requests are tried.
type scheduler struct {
	name       string
	rate       float64 // real requests per second
	configs    []config
	roundRobin bool // without "tc"
	twoConfigs bool // without "multi"
	noDummies  bool // without "dummy"
	exact      bool // policy exact
	oneConfig  bool // inferline, clipper
	apart      bool // without "dt"
	oneTuple   bool // without "multi:one"
	literal    bool // reading literal
	pacing     bool // piccolo's dummy rule

	brute bool         // policy brute
	sets  []schedule   // that it chooses from, worst cases rising and costs falling
	twins []*scheduler // the same module under policies harpagon and piccolo

	whole *wholeModule // policy exact under cost model whole

	rider float64       // its rate, where it rides on a device of others; rate is 0 then
	fare  time.Duration // its budget then
}

// tranche is one entry of the configuration set: machines of one
// configuration, either a whole number of full ones or one that is partly used.
type tranche struct {
	config
	machines float64
	rate     float64 // dummy requests included
	collect  float64 // w, the rate at which batches are collected
	worst    time.Duration
	period   time.Duration // between two batches; 0 when they are full
	margin   time.Duration // on a shared device, by which the window is longer than the period
	deadline time.Duration // on a shared device, from closing a batch to its end; 0 on its own
	part     float64       // of the price of a shared device that is charged
	rides    bool          // on a device of others, see rider.go
}

// schedule is the configuration set of one module.
type schedule struct {
	tranches []tranche
	dummies  float64
	worst    time.Duration
	weight   float64 // what decisions compare: cost, or machines when all hardware is free
}

// algorithm1 is Algorithm 1 of the Harpagon paper: the configurations are tried
// in the order of their throughput-cost ratio; as long as one keeps the budget
// at the rate that is still unallocated it takes as many full machines as that
// rate fills, then the partly used rest. rate includes dummy requests.
//
// Full machines of one configuration share the rate that is unallocated when
// they are chosen; the partly used machine is judged at its own rate, even
// when it runs the same configuration.
//
// When no configuration can take the rest, ok is false and rest is its rate;
// the tranches chosen so far are returned.
func (s *scheduler) algorithm1(rate float64, budget time.Duration) (set schedule, rest float64, ok bool) {
	rest = rate
	k := 0
	for rest > rateTolerance*rate {
		t, fits := s.take(s.configs[k], rest, budget)
		if !fits {
			if k++; k == len(s.configs) {
				return set, rest, false
			}
			continue
		}
		set.add(t)
		rest -= t.rate
		if s.twoConfigs && rest > rateTolerance*rate {
			return s.residual(set, rest, budget)
		}
	}
	return set, 0, true
}

// take allocates what one step of Algorithm 1 gives to configuration c.
func (s *scheduler) take(c config, rest float64, budget time.Duration) (tranche, bool) {
	n := rest / c.throughput()
	if s.literal {
		t := tranche{config: c, machines: n, rate: rest, collect: rest, worst: s.worstCase(c, rest)}
		return t, t.worst <= budget
	}
	if full := math.Floor(n + rateTolerance); full >= 1 {
		t := tranche{config: c, machines: full, rate: math.Min(rest, full*c.throughput()), collect: rest, worst: s.worstCase(c, rest)}
		return t, t.worst <= budget
	}
	t := tranche{config: c, machines: n, rate: rest, collect: rest, worst: partialWorstCase(c, rest)}
	return t, t.worst <= budget
}

// residual serves the rest with a single configuration, as systems with two
// configurations a module do: the first whose full machines and whose partly
// used one both keep the budget.
func (s *scheduler) residual(set schedule, rest float64, budget time.Duration) (schedule, float64, bool) {
	for _, c := range s.configs {
		if more, _, ok := s.alike(c, rest, budget); ok {
			for _, t := range more.tranches {
				set.add(t)
			}
			return set, 0, true
		}
	}
	return set, rest, false
}

// alike serves a rate with full machines of c and one that is partly used.
func (s *scheduler) alike(c config, rate float64, budget time.Duration) (set schedule, rest float64, ok bool) {
	full, fits := s.take(c, rate, budget)
	if !fits {
		return set, rate, false
	}
	set.add(full)
	if rest = rate - full.rate; rest <= rateTolerance*rate {
		return set, 0, true
	}
	part, fits := s.take(c, rest, budget)
	if !fits {
		return set, rest, false
	}
	set.add(part)
	return set, 0, true
}

func (s *schedule) add(t tranche) {
	s.tranches = append(s.tranches, t)
	s.worst = max(s.worst, t.worst)
	s.weight += t.weight * t.charged()
}

// charged is the number of machines that are paid for.
func (t *tranche) charged() float64 {
	switch {
	case t.rides:
		return 0
	case t.deadline > 0:
		return t.part
	case t.whole:
		return wholeDevices(t.machines)
	}
	return t.machines
}

// wholeDevices rounds up, but for rounding noise.
func wholeDevices(machines float64) float64 { return math.Ceil(machines - rateTolerance*machines) }

// cheaper compares what decisions compare, beyond rounding.
func cheaper(a, b float64) bool { return a+costTolerance*math.Abs(a) < b }
