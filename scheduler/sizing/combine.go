package sizing

import (
	"cmp"
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Where modules have devices to themselves each can be planned on its own: for more than its
// rate, in a part of its budget, with devices added. The share of late requests of a
// candidate is estimated, and the sum over modules bounds that of the pipeline. Candidates
// thus form a row of plans, each dearer than the one before and the cheapest with its
// estimated share; the first that attains the target in simulation is found by bisection.
// Because estimates may be too cautious, single modules and pairs of them are then changed
// to cheaper candidates, those with the fewest late requests first.

// candidate is how a module is planned.
type candidate struct {
	spare, cut   float64
	group, added int // devices that are added, and to which group
	cost, missed float64
	runs         string // the groups
}

// combined is a candidate for each module.
type combined struct {
	picks        []int
	cost, missed float64
}

// much is for how much beyond the rate choices are made, in terms of sizer.spare.
func much() [13]float64 {
	return [...]float64{0, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 6, 9, 13}
}

// Bounds of what is tried.
const (
	mostOnTop = 3 // devices that are added to a candidate
	mostEach  = 2 // changes that cost the same
)

// choices of every module, each with other groups.
func (s *sizer) choices() [][]candidate {
	all := make([][]candidate, len(s.base.Modules))
	for _, cut := range cuts() {
		for _, x := range much() {
			if s.halted() {
				return nil
			}
			spare := s.spare(x)
			p, err := s.plan(spare, func(string) float64 { return cut }, plan.CostWhole)
			if err != nil {
				continue
			}
			for i := range p.Modules {
				m := &p.Modules[i]
				c := candidate{spare: spare[m.Name], cut: cut, cost: m.Cost, missed: s.missed(m), runs: signature(&plan.Plan{Modules: p.Modules[i : i+1]}, false)}
				all[i] = append(all[i], c)
				for k := range m.Groups {
					more := p
					for n := 1; n <= mostOnTop; n++ {
						next, price := s.with(&more, i, k)
						if price == 0 {
							break
						}
						more, c.group, c.added = next, k, n
						c.cost, c.missed, c.runs = more.Modules[i].Cost, s.missed(&more.Modules[i]), signature(&plan.Plan{Modules: more.Modules[i : i+1]}, false)
						all[i] = append(all[i], c)
					}
				}
			}
		}
	}
	for i := range all {
		slices.SortStableFunc(all[i], func(a, b candidate) int { return cmp.Or(cmp.Compare(a.runs, b.runs), cmp.Compare(a.cut, b.cut)) })
		all[i] = slices.CompactFunc(all[i], func(a, b candidate) bool { return a.runs == b.runs })
	}
	return all
}

// front keeps what nothing is both cheaper than and has less late, by cost.
func front[T any](all []T, of func(*T) (cost, missed float64)) []T {
	slices.SortStableFunc(all, func(a, b T) int {
		x, p := of(&a)
		y, q := of(&b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(p, q))
	})
	kept := all[:0:0]
	for i := range all {
		_, p := of(&all[i])
		if len(kept) > 0 {
			if _, least := of(&kept[len(kept)-1]); p >= least {
				continue
			}
		}
		kept = append(kept, all[i])
	}
	return kept
}

// combine looks for the cheapest combination of choices that holds.
func (s *sizer) combine() {
	all := s.choices()
	row := []combined{{}}
	for _, choices := range all {
		var next []combined
		for _, c := range row {
			for k := range choices {
				next = append(next, combined{append(slices.Clone(c.picks), k), c.cost + choices[k].cost, c.missed + choices[k].missed})
			}
		}
		row = front(next, func(c *combined) (float64, float64) { return c.cost, c.missed })
	}
	low, high, best := -1, len(row), combined{}
	for high-low > 1 && !s.halted() {
		middle := (low + high) / 2
		if p, err := s.combination(all, row[middle].picks); err == nil && (s.dear(&p) || s.meets(&p)) {
			high, best = middle, row[middle]
		} else {
			low = middle
		}
	}
	for tried := 0; best.picks != nil && tried < mostChanged; {
		better := false
		for _, c := range s.changes(all, best) {
			if tried++; tried > mostChanged || s.halted() {
				return
			}
			if p, err := s.combination(all, c.picks); err == nil && !s.dear(&p) && s.meets(&p) {
				best, better = c, true
				break
			}
		}
		if !better {
			return
		}
	}
}

// changes are the cheaper combinations that differ in one module or two, those first that have
// least late.
func (s *sizer) changes(all [][]candidate, from combined) []combined {
	var list []combined
	change := func(c combined, i, k int) combined {
		was, is := &all[i][c.picks[i]], &all[i][k]
		c.picks = slices.Clone(c.picks)
		c.picks[i] = k
		c.cost, c.missed = c.cost+is.cost-was.cost, c.missed+is.missed-was.missed
		return c
	}
	cheaper := func(c combined) bool { return c.cost < from.cost*(1-plan.RateTolerance) }
	for i := range all {
		for k := range all[i] {
			one := change(from, i, k)
			if cheaper(one) {
				list = append(list, one)
			}
			for j := i + 1; j < len(all) && k != from.picks[i]; j++ {
				for l := range all[j] {
					if two := change(one, j, l); l != from.picks[j] && cheaper(two) {
						list = append(list, two)
					}
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b combined) int { return cmp.Or(cmp.Compare(a.missed, b.missed), cmp.Compare(a.cost, b.cost)) })
	each := map[float64]int{}
	return slices.DeleteFunc(list, func(c combined) bool {
		cost := math.Round(c.cost * 1e6)
		each[cost]++
		return each[cost] > mostEach
	})
}

// combination is the plan of such choices.
func (s *sizer) combination(all [][]candidate, picks []int) (plan.Plan, error) {
	spare, cut := map[string]float64{}, map[string]float64{}
	for i, k := range picks {
		name := s.base.Modules[i].Name
		spare[name], cut[name] = all[i][k].spare, all[i][k].cut
	}
	p, err := s.plan(spare, func(module string) float64 { return cut[module] }, plan.CostWhole)
	for i, k := range picks {
		for range all[i][k].added {
			if err == nil && all[i][k].group < len(p.Modules[i].Groups) {
				p, _ = s.with(&p, i, all[i][k].group)
			}
		}
	}
	return p, err
}
