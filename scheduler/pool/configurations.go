package pool

import (
	"cmp"
	"fmt"
	"slices"
)

// maxConfigurations bounds a list of configurations.
const maxConfigurations = 1_000_000

// priceTolerance lets a configuration cost the budget to the cent although its
// sum was rounded.
const priceTolerance = 1e-9

// configuration is a number of instances of each kind.
type configuration struct {
	counts []int
	rate   float64 // what it is ranked by
}

// configurations lists everything that the budget pays for, with at least one
// base instance.
func (m *market) configurations() ([]configuration, error) {
	var all []configuration
	counts := make([]int, len(m.kinds))
	var fill func(k int, left float64) error
	fill = func(k int, left float64) error {
		if k == len(m.kinds) {
			if len(all) == maxConfigurations {
				return fmt.Errorf("the budget pays for more than %d configurations: bound the kinds of hardware with count, or name fewer of them", maxConfigurations)
			}
			all = append(all, configuration{counts: slices.Clone(counts)})
			return nil
		}
		least := 0
		if k == m.base {
			least = 1
		}
		for n := least; n <= m.affordable(k, left); n++ {
			counts[k] = n
			if err := fill(k+1, left-float64(n)*m.kinds[k].price); err != nil {
				return err
			}
		}
		counts[k] = 0
		return nil
	}
	return all, fill(0, m.budget)
}

// affordable is how many instances of the kind the money pays for.
func (m *market) affordable(k int, money float64) int {
	n := int(money*(1+priceTolerance)/m.kinds[k].price + priceTolerance)
	if most := m.kinds[k].most; most > 0 {
		n = min(n, most)
	}
	return max(0, n)
}

// rank orders configurations by falling rate; of equal ones, the cheaper first.
func (m *market) rank(all []configuration) {
	slices.SortStableFunc(all, func(a, b configuration) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(m.cost(a.counts), m.cost(b.counts)))
	})
}

// Numbers of the paper's choice rule.
const (
	agreeing   = 3  // configurations at the top that must agree on the base count
	considered = 10 // configurations to take the middle of otherwise
)

// choose applies the paper's rule to ranked configurations (section 5.2): where
// the first three have the same number of base instances, the first of all;
// otherwise, of the first ten, the one with the least sum of squared distances
// to the others, in plain instance counts.
func choose(ranked []configuration, base int) configuration {
	top := ranked[:min(agreeing, len(ranked))]
	if !slices.ContainsFunc(top, func(c configuration) bool { return c.counts[base] != top[0].counts[base] }) {
		return top[0]
	}
	top = ranked[:min(considered, len(ranked))]
	best, least := 0, -1
	for i, c := range top {
		sum := 0
		for _, other := range top {
			for g := range c.counts {
				off := c.counts[g] - other.counts[g]
				sum += off * off
			}
		}
		if least < 0 || sum < least {
			best, least = i, sum
		}
	}
	return top[best]
}
