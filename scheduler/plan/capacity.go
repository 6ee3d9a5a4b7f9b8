package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// The paper assumes as many machines as money buys. A hardware block may limit
// them by count: when the cheapest plan needs more of a kind than exist, the
// module that can do without that kind for the least money does, and the problem
// is solved again, until what exists is enough. Where no module can, the kind is
// left out altogether; when that does not help, the plan is infeasible, with the rate that
// would fit and the missing devices as its reason.
//
// Under whole and shared devices policy exact searches within the limits, and uses the last
// devices of a kind beside others in one module. The way in which modules share a limited
// kind is greedy, so no more than the bound is proven.

// affordable takes out the hardware of which too little exists.
func (d driver) affordable(p Problem) (Problem, error) {
	left := p
	var first *Plan
	for first != nil || left.Limited() {
		out, err := d.planOnce(left)
		if err != nil {
			if first == nil {
				first = d.withoutLimits(left)
			}
			if first != nil {
				err = d.tooFew(p, first)
			}
			return left, err
		}
		short := shortages(&left, &out)
		if len(short) == 0 {
			break
		}
		if first == nil {
			first = &out
		}
		left = withoutKind(left, short, d.planOnce)
	}
	return left, nil
}

// withoutKind forbids a kind that is short to the module that makes the cheapest
// plan without it, or to all where no single one can do without.
func withoutKind(p Problem, short []shortage, solve func(Problem) (Plan, error)) Problem {
	best, least := Problem{}, math.Inf(1)
	for i := range p.Pipeline.Modules {
		trial, ok := p.forbidding(i, short[0].hardware)
		if !ok {
			continue
		}
		out, err := solve(trial)
		if err == nil && out.Cost < least {
			best, least = trial, out.Cost
		}
	}
	if math.IsInf(least, 1) {
		p.Hardware = without(p.Hardware, short)
		return p
	}
	return best
}

// forbidding takes a kind away from a module; false where it does not use it or
// has nothing else.
func (p Problem) forbidding(i int, hardware string) (Problem, bool) {
	m := &p.Pipeline.Modules[i]
	var rest []string
	profiled, used := false, false
	for _, h := range p.Hardware {
		if len(m.Hardware) > 0 && !slices.Contains(m.Hardware, h.Name) {
			continue
		}
		points := slices.ContainsFunc(m.Profile.Points, func(pt pipelines.Point) bool { return pt.Hardware == h.Name })
		if h.Name == hardware {
			used = points
			continue
		}
		rest, profiled = append(rest, h.Name), profiled || points
	}
	if !used || !profiled {
		return p, false
	}
	p.Pipeline.Modules = slices.Clone(p.Pipeline.Modules)
	p.Pipeline.Modules[i].Hardware = rest
	return p, true
}

// withoutLimits is the plan that more devices would make possible, nil when none
// would.
func (d driver) withoutLimits(p Problem) *Plan {
	p.Hardware = slices.Clone(p.Hardware)
	limits := slices.Clone(p.Hardware)
	for i := range p.Hardware {
		p.Hardware[i].Count = 0
	}
	out, err := d.planOnce(p)
	p.Hardware = limits
	if err != nil || len(shortages(&p, &out)) == 0 {
		return nil
	}
	return &out
}

// Limited reports that only so many devices of some kind exist.
func (p *Problem) Limited() bool {
	return slices.ContainsFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Count > 0 })
}

// planOnce plans without regard to counts.
func (d driver) planOnce(p Problem) (Plan, error) {
	budgets, err := d.split(p)
	if err != nil {
		return Plan{}, err
	}
	return d.schedule(p, budgets)
}

// shortage is a kind of hardware of which a plan needs more than exist.
type shortage struct {
	hardware string
	needs    float64
	count    int
}

func shortages(p *Problem, out *Plan) []shortage {
	var list []shortage
	for _, h := range p.Hardware {
		needs := out.MachinesOf(h.Name)
		if h.Count > 0 && needs > float64(h.Count)*(1+RateTolerance) {
			list = append(list, shortage{h.Name, needs, h.Count})
		}
	}
	return list
}

// MachinesOf counts the machines of one kind of hardware; fractions of several groups may
// share a device under the proportional cost model.
func (p *Plan) MachinesOf(hardware string) float64 {
	sum := 0.0
	for _, m := range p.Modules {
		for _, g := range m.Groups {
			if g.Hardware == hardware && g.Deadline == 0 && !g.Rides {
				sum += g.Machines
			}
		}
	}
	for _, d := range p.Devices {
		if d.Hardware == hardware {
			sum++
		}
	}
	return sum
}

func without(all []pipelines.Hardware, short []shortage) []pipelines.Hardware {
	var rest []pipelines.Hardware
	for _, h := range all {
		if !slices.ContainsFunc(short, func(s shortage) bool { return s.hardware == h.Name }) {
			rest = append(rest, h)
		}
	}
	return rest
}

func (d driver) tooFew(p Problem, first *Plan) error {
	s := shortages(&p, first)[0]
	reason := fmt.Sprintf("%s requests per second need %s %s, %d exist", quantity.Number(p.Pipeline.Rate), quantity.Number(s.needs), s.hardware, s.count)
	if rate := d.largestRate(p); rate > 0 {
		reason += fmt.Sprintf("; at most %s requests per second would fit", quantity.Number(rate))
	}
	if name, n, price := d.cheapestExtra(p, first); n > 0 {
		reason += fmt.Sprintf("; %d more %s (%s per hour) would do", n, name, quantity.Money(float64(n)*price))
	}
	return &InfeasibleError{Pipeline: p.Pipeline.Name, SLO: p.Pipeline.SLO, Reason: reason}
}

// largestRate is the highest rate, to three digits and rounded down, whose
// plan the devices hold, by bisection; 0 where that is not known, or not a
// thousandth of what is wanted: then it is not the rate for which they are too
// few. Modules with a rate of their own are scaled with the pipeline.
func (d driver) largestRate(p Problem) float64 {
	const shrinks, steps = 4, 10
	low, high := 0.25, 1.0
	for n := 0; !d.fitsCount(p.Scaled(low)); n++ {
		if n == shrinks {
			return 0
		}
		low, high = low/4, low
	}
	for range steps {
		mid := (low + high) / 2
		if d.fitsCount(p.Scaled(mid)) {
			low = mid
		} else {
			high = mid
		}
	}
	rate := low * p.Pipeline.Rate
	if !(rate > 0) || d.options.Stopped() { // the bisection was ended: more might fit
		return 0
	}
	digits := math.Pow(10, 2-math.Floor(math.Log10(rate)))
	return math.Floor(rate*digits) / digits
}

// cheapestExtra is the kind and number of further devices that make the plan
// fit for least money, 0 where none of a single kind do. first is the plan that
// no limit hinders.
func (d driver) cheapestExtra(p Problem, first *Plan) (name string, n int, price float64) {
	for i, h := range p.Hardware {
		needs := int(math.Ceil(first.MachinesOf(h.Name))) - h.Count
		if h.Count == 0 || needs <= 0 {
			continue
		}
		fits := func(extra int) bool {
			trial := p
			trial.Hardware = slices.Clone(p.Hardware)
			trial.Hardware[i].Count += extra
			return d.fitsCount(trial)
		}
		if !fits(needs) {
			continue
		}
		low, high := 0, needs
		for high-low > 1 {
			if mid := (low + high) / 2; fits(mid) {
				high = mid
			} else {
				low = mid
			}
		}
		if n == 0 || float64(high)*h.Price < float64(n)*price {
			name, n, price = h.Name, high, h.Price
		}
	}
	return name, n, price
}

// fitsCount reports whether the devices that exist hold a plan, as far as is known when the
// search must end.
func (d driver) fitsCount(p Problem) bool {
	for !d.options.Stopped() {
		out, err := d.planOnce(p)
		if err != nil {
			return false
		}
		short := shortages(&p, &out)
		if len(short) == 0 {
			return true
		}
		p = withoutKind(p, short, d.planOnce)
	}
	return false
}

// Scaled is the problem at so many times its rates.
func (p Problem) Scaled(by float64) Problem {
	p.Pipeline.Rate *= by
	p.Pipeline.Modules = slices.Clone(p.Pipeline.Modules)
	for i := range p.Pipeline.Modules {
		p.Pipeline.Modules[i].Rate *= by
	}
	return p
}
