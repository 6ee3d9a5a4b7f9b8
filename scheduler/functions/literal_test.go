package functions

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// equation5 is the paper's formula for two applications, as printed.
func equation5(t1, r1, t2, r2 float64) float64 {
	return t1 + r2/(r1+r2)*(1-math.Exp(-r1*(t2-t1)))/r1
}

// literal is the brute-force twin of catalogue.best: every offer, with the
// constraints as printed, timeouts first.
func literal(offers []Offer, members []app) (best *Offer) {
	for i := range offers {
		o := &offers[i]
		timeout, rate := members[0].slo-o.Max, members[0].rate
		fits := timeout >= 0 // (10), for the shortest objective and so for all
		for _, a := range members[1:] {
			timeout = equation5(timeout, rate, a.slo-o.Max, a.rate)
			rate += a.rate
		}
		fits = fits && float64(o.Batch) <= math.Floor(rate*timeout+1e-9)+1 // (9)
		if fits && (best == nil || o.Cost < best.Cost*(1-costTolerance)) {
			best = o
		}
	}
	return best
}

func TestBestIsTheBestOfAllOffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(2, rapid.IntRange(0, 1<<20).Draw(t, "input"), 8)
		s := newPlanner(p)
		got, want := s.catalogue.best(fold(s.apps)), literal(Offers(p), s.apps)
		require.Equal(t, want == nil, got == nil)
		if want != nil {
			assert.InEpsilon(t, want.Cost, got.Cost, 1e-9)
		}
	})
}

// TestEquation5 compares the closed form with the expectation that it stands
// for (equation 12), by quadrature.
func TestEquation5(t *testing.T) {
	for _, c := range []struct{ t1, r1, t2, r2 float64 }{{0.1, 5, 0.4, 10}, {0.2, 0.3, 2, 0.1}, {0, 40, 0.01, 1}, {0.3, 2, 0.3, 9}} {
		const steps = 200_000
		span, sum := c.t2-c.t1, 0.0
		for i := range steps {
			at := (float64(i) + 0.5) / steps * span
			sum += c.r1 * math.Exp(-c.r1*at) * (at + c.t1) * span / steps
		}
		eta2 := c.r2 / (c.r1 + c.r2)
		want := (1-eta2)*c.t1 + eta2*(sum+c.t2*math.Exp(-c.r1*span))
		assert.InDelta(t, want, equation5(c.t1, c.r1, c.t2, c.r2), 1e-6)
		d := alone(c.t1, c.r1).join(c.t2, c.r2)
		assert.InDelta(t, want, d.equiv, 1e-6)
		assert.InDelta(t, c.r1+c.r2, d.rate, 1e-12)
	}
}

// TestEquivalentObjectiveMovesWithTheLatency is what makes a group three
// numbers: folding timeouts, or objectives and then taking the latency off, is
// the same.
func TestEquivalentObjectiveMovesWithTheLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newPlanner(drawn(3, rapid.IntRange(0, 1<<20).Draw(t, "input"), 10))
		latency := rapid.Float64Range(0, s.apps[0].slo).Draw(t, "latency")
		d := fold(s.apps)
		shifted := make([]app, len(s.apps))
		for i, a := range s.apps {
			shifted[i] = app{slo: a.slo - latency, rate: a.rate}
		}
		assert.InDelta(t, fold(shifted).equiv, d.timeout(latency), 1e-9)
		assert.LessOrEqual(t, d.equiv, s.apps[len(s.apps)-1].slo+1e-12)
		assert.GreaterOrEqual(t, d.equiv, s.apps[0].slo-1e-12)
	})
}

// partitions visits every partition of n things, as a group number for each.
func partitions(n int, visit func(group []int)) {
	group := make([]int, n)
	var place func(i, groups int)
	place = func(i, groups int) {
		if i == n {
			visit(group)
			return
		}
		for g := range groups + 1 {
			group[i] = g
			place(i+1, max(groups, g+1))
		}
	}
	place(0, 0)
}

// cheapest is the brute-force twin of the policies exact: every partition,
// every offer.
func cheapest(offers []Offer, apps []app) float64 {
	least := math.Inf(1)
	known := map[string]float64{}
	partitions(len(apps), func(group []int) {
		sum := 0.0
		for g := range len(apps) {
			var members []app
			key := make([]byte, len(apps))
			rate := 0.0
			for i, a := range apps {
				if group[i] == g {
					members, key[i], rate = append(members, a), 1, rate+a.rate
				}
			}
			if len(members) == 0 {
				break
			}
			c, ok := known[string(key)]
			if !ok {
				c = math.Inf(1)
				if o := literal(offers, members); o != nil {
					c = o.Cost * rate
				}
				known[string(key)] = c
			}
			sum += c
		}
		least = math.Min(least, sum)
	})
	return least
}

func TestExactIsTheBestOfAllPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(4, rapid.IntRange(0, 1<<20).Draw(t, "input"), 6)
		plan, err := Solve(p, Options{})
		require.NoError(t, err)
		require.Equal(t, Optimal, plan.Status)
		want := cheapest(Offers(p), newPlanner(p).apps)
		assert.InEpsilon(t, want, plan.CostPerRequest*plan.Rate, 1e-9)
	})
}

func TestBoundsHoldAndNeighboursComeClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newPlanner(drawn(5, rapid.IntRange(0, 1<<20).Draw(t, "input"), 9))
		least := total(s.subsets())
		near := s.contiguous()
		assert.GreaterOrEqual(t, total(near), least*(1-1e-9))
		polished := total(s.polish(near))
		assert.GreaterOrEqual(t, polished, least*(1-1e-9))
		assert.LessOrEqual(t, polished, total(near)*(1+1e-9))
		assert.LessOrEqual(t, s.bound(), least*(1+1e-9))
		assert.LessOrEqual(t, s.relaxed(), least*(1+1e-9))
	})
}
