package paper

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Policy brute is the yardstick of the papers' evaluations: an exhaustive search
// over all configuration sets of every module and over all splits, in the
// papers' own reading. That reading ("tail") of a configuration set is:
//
//   - any number of full machines of any configurations; a full machine of ratio
//     r collects at the rate of all machines of ratio r or less (Theorem 1);
//   - at most one machine that is partly used, of any configuration; it collects
//     at its own rate, d + b/f, but a batch of one waits for nobody;
//   - or dummy requests that fill the last machine instead. As Theorem 2 has it,
//     they fill no more than one: a set holds no machine that could be left out,
//     the last in the order of ratios.
//
// Such a set has one worst case and one cost, so the budgets that matter are the
// worst cases of sets, and a module is a list of sets of which none beats
// another in both (setsOf). The cheapest combination whose paths keep the SLO is
// the result (combine). Two things are left out of the enumeration: machines
// that are partly used with dummy requests, as Piccolo's rule has them, and more
// dummy requests than fill one machine. What policies harpagon and piccolo find
// is put into the lists, so that brute is never dearer than they are; with it
// come such sets where they are of use.
//
// Only what is provably no better is skipped: a part of the search whose least
// possible cost and worst case some set at hand undercuts both. The papers do not
// say how they enumerate.

// BruteReading is the Restriction of the lower bound of policy brute.
const BruteReading = "the papers' configuration sets, each worst case by Theorem 1"

// ratioTolerance is the share by which two throughput-cost ratios may differ and
// still count as equal.
const ratioTolerance = 1e-9

// lister enumerates the configuration sets of one module.
type lister struct {
	m       *plan.ModuleProblem
	dummies bool            // dummy requests may fill the last machine
	longest time.Duration   // the longest budget that the module could have
	dearest float64         // the largest weight that a set may have in a plan of use
	most    float64         // the largest throughput of one machine
	rates   []float64       // throughput of one machine, by configuration
	units   []float64       // weight of one request per second
	counts  []int           // full machines, by configuration
	used    []int           // the configurations of which there are some, in order
	front   []plan.Schedule // worst cases rise, weights fall
	watch   *deadline
}

// setsOf lists the configuration sets of a module that no other undercuts, with
// worst cases up to longest and weights up to dearest.
func setsOf(m *plan.ModuleProblem, dummies bool, longest time.Duration, dearest float64, known []plan.Schedule, watch *deadline) []plan.Schedule {
	l := lister{m: m, dummies: dummies, longest: longest, dearest: dearest, counts: make([]int, len(m.Configs)), watch: watch}
	for _, c := range m.Configs {
		l.most = math.Max(l.most, c.Throughput())
		l.rates = append(l.rates, c.Throughput())
		l.units = append(l.units, c.Unit())
	}
	for _, set := range known {
		if !l.beaten(set.Worst, set.Weight) {
			l.keep(set)
		}
	}
	l.visit(0, m.Rate, 0, 0)
	return l.front
}

// visit goes on from full machines of the configurations before k that leave
// rest and cost weight; no set that holds them has a shorter worst case than
// worst.
func (l *lister) visit(k int, rest, weight float64, worst time.Duration) {
	if l.watch.over() {
		return
	}
	l.close(rest, weight, worst)
	for i := k; i < len(l.counts); i++ {
		c := l.m.Configs[i]
		fills := rest / l.rates[i]
		n := int(math.Ceil(fills - plan.RateTolerance))
		if !l.dummies {
			n = int(math.Floor(fills + plan.RateTolerance))
		}
		least := max(worst, plan.PartialWorstCase(c, rest+l.tied(i)+l.spare()))
		l.used = append(l.used, i)
		for ; n >= 1 && !l.watch.over(); n-- {
			left := rest - float64(n)*l.rates[i]
			spent := weight + float64(n)*c.Weight
			if l.beaten(least, spent+l.atLeast(i+1, left)) {
				if left > l.most {
					break // fewer cost no less, see atLeast
				}
				continue
			}
			l.counts[i] = n
			if left <= plan.RateTolerance*l.m.Rate {
				l.offer(-1, 0, spent, least)
			} else {
				l.visit(i+1, left, spent, least)
			}
		}
		l.counts[i], l.used = 0, l.used[:len(l.used)-1]
		if l.beaten(worst, weight+l.atLeast(i+1, rest)) {
			return // the further ones cost no less
		}
	}
}

// tied is the rate of the full machines before configuration i whose ratio is
// the same.
func (l *lister) tied(i int) float64 {
	sum := 0.0
	for j := i - 1; j >= 0 && l.units[j] >= l.units[i]*(1-ratioTolerance); j-- {
		sum += float64(l.counts[j]) * l.rates[j]
	}
	return sum
}

// spare is the most by which dummy requests may raise the rate.
func (l *lister) spare() float64 {
	if !l.dummies {
		return 0
	}
	return l.most
}

// close tries every configuration for the one machine that is partly used.
func (l *lister) close(rest, weight float64, worst time.Duration) {
	for j, c := range l.m.Configs {
		if n := rest / l.rates[j]; n < 1-plan.RateTolerance {
			l.offer(j, rest, weight+c.Weight*l.charged(c, n), max(worst, partly(c, rest)))
		}
	}
}

func (l *lister) charged(c plan.Config, machines float64) float64 {
	t := plan.Allocation{Config: c, Machines: machines}
	return t.Charged()
}

// atLeast is what serving rest costs at the least with full machines of
// configurations from k on and one of any configuration that is partly used. A
// request that cannot be the partly used machine's costs the best ratio of k on:
// beyond the largest throughput of a machine that is the slope.
func (l *lister) atLeast(k int, rest float64) float64 {
	if rest <= plan.RateTolerance*l.m.Rate {
		return 0
	}
	unit := math.Inf(1)
	if k < len(l.m.Configs) {
		unit = l.units[k]
	}
	least := unit * rest
	for j, t := range l.rates[:k] {
		part := math.Min(rest, t)
		more := 0.0
		if part < rest {
			more = unit * (rest - part)
		}
		least = math.Min(least, part*l.units[j]+more)
	}
	return least * (1 - plan.CostTolerance)
}

// beaten says whether a set at hand is as good in both, the worst case longer
// than any split allows, or the weight more than any cheapest plan can hold.
func (l *lister) beaten(worst time.Duration, weight float64) bool {
	if worst > l.longest || !(weight <= l.dearest) || math.IsInf(weight, 1) {
		return true
	}
	n, _ := slices.BinarySearchFunc(l.front, worst+1, byWorst)
	return n > 0 && !plan.Cheaper(weight, l.front[n-1].Weight)
}

// offer keeps the set of the counts, and of one more machine of configuration
// part that is used for f requests per second (none when part < 0), if no other
// beats it. Its worst case is least or longer.
func (l *lister) offer(part int, f, weight float64, least time.Duration) {
	if l.beaten(least, weight) || l.watch.over() {
		return
	}
	worst := time.Duration(0)
	for _, i := range l.used {
		worst = max(worst, plan.PartialWorstCase(l.m.Configs[i], l.collect(i, part, f)))
	}
	if part >= 0 {
		worst = max(worst, partly(l.m.Configs[part], f))
	}
	if !l.beaten(worst, weight) {
		l.keep(l.set(part, f, worst, weight))
	}
}

func (l *lister) set(part int, f float64, worst time.Duration, weight float64) plan.Schedule {
	set := plan.Schedule{Worst: worst, Weight: weight}
	total := 0.0
	put := func(c plan.Config, machines, rate, collect float64, worst time.Duration) {
		set.Allocations = append(set.Allocations, plan.Allocation{Config: c, Machines: machines, Rate: rate, Collect: collect, Worst: worst})
		total += rate
	}
	for i, n := range l.counts {
		c := l.m.Configs[i]
		if n > 0 {
			collect := l.collect(i, part, f)
			put(c, float64(n), float64(n)*c.Throughput(), collect, plan.PartialWorstCase(c, collect))
		}
		if i == part {
			put(c, f/c.Throughput(), f, f, partly(c, f))
		}
	}
	if dummies := total - l.m.Rate; dummies > plan.RateTolerance*l.m.Rate {
		set.Dummies = dummies
	}
	return set
}

// collect is the rate at which full machines of configuration i collect: that
// of all machines whose ratio is no better, a partly used one included.
func (l *lister) collect(i, part int, f float64) float64 {
	least, sum := l.units[i]*(1-ratioTolerance), 0.0
	for _, j := range l.used {
		if l.units[j] >= least {
			sum += float64(l.counts[j]) * l.rates[j]
		}
	}
	if part >= 0 && l.units[part] >= least {
		sum += f
	}
	return sum
}

// partly is the worst case of a partly used machine that receives f requests per second.
func partly(c plan.Config, f float64) time.Duration {
	if c.Batch == 1 {
		return c.Duration
	}
	return plan.PartialWorstCase(c, f)
}

// keep puts a set into the list and takes those out that it beats.
func (l *lister) keep(set plan.Schedule) {
	at, _ := slices.BinarySearchFunc(l.front, set.Worst, byWorst)
	end := at
	for end < len(l.front) && !plan.Cheaper(l.front[end].Weight, set.Weight) {
		end++
	}
	l.front = slices.Replace(l.front, at, end, set)
}

func byWorst(s plan.Schedule, worst time.Duration) int { return cmp.Compare(s.Worst, worst) }
