package experiments

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// attainmentBound is the most that any rule could answer in time on the executors of a plan, one that
// knows all arrivals beforehand included.
type attainmentBound struct {
	Attainment float64 // of all requests
	Module     string  // that has no room for more; empty where all could be answered
}

// boundTolerance is how far a number of machines may be from a whole one.
const boundTolerance = 1e-6

// boundAttainment relaxes what simulate.OnPlans plays with the same options. Each module is looked
// at by itself, as if those above and below it never made anybody wait: a request is there
// once the least that the modules above need has passed, and must have left while the least
// that those below need remains. Its executors work at the rate of their best batches, on any
// part of an item at any time, so that earliest deadline first does the most that can be
// done (Horn, 1974). Where requests have several items at a module, those with the fewest
// come first, which answers the most as long as parts of requests count. The least of the
// modules' bounds is the pipeline's.
//
// Arrivals are those that OnPlans draws. Where a fan-out is random, how it falls on requests
// is drawn by the same law, and not the same draw. The bound is one for durations as
// profiled, without noise.
func boundAttainment(l simulate.Load, p plan.Plan, o simulate.Options) (attainmentBound, error) {
	g, err := flow.Compile(&l.Pipeline)
	if err != nil {
		return attainmentBound{}, fmt.Errorf("bound: %w", err)
	}
	b := bounded{load: &l, graph: g, spread: o.Spread, executors: make([]executors, len(g.Nodes))}
	if b.spread == "" {
		b.spread = simulate.SpreadPoisson
	}
	for i := range g.Nodes {
		k := slices.IndexFunc(p.Modules, func(m plan.Module) bool { return m.Name == g.Nodes[i].Module })
		if k < 0 {
			return attainmentBound{}, fmt.Errorf("bound: the plan of pipeline %q says nothing of module %q; make a new plan", p.Pipeline, g.Nodes[i].Module)
		}
		b.executors[i] = b.executorsOf(&p.Modules[k])
	}
	arrivals := l.Arrivals.Stream(l.Rate, o.Warmup+o.Duration, simulate.RandomSource(o.Seed, simulate.ForArrivals, 0))
	for t := arrivals.Next(); t < o.Warmup+o.Duration; t = arrivals.Next() {
		if t >= o.Warmup {
			b.came = append(b.came, t)
		}
	}
	return b.least(o.Seed), nil
}

// bounded is a load on its plan.
type bounded struct {
	load      *simulate.Load
	graph     *flow.Graph
	spread    simulate.Spread
	executors []executors // by node
	came      []time.Duration
}

// executors of a module together.
type executors struct {
	rate  float64       // items a nanosecond at most
	least time.Duration // of a batch
}

func (b *bounded) executorsOf(m *plan.Module) (all executors) {
	groups := flow.DispatchGroups(b.load.Pipeline.Module(m.Name), m)
	all.least = flow.LeastTime(groups)
	for i, g := range groups {
		n := math.Ceil(m.Groups[i].Machines-boundTolerance) * float64(max(1, m.Groups[i].Concurrency))
		best := 0.0
		for k, took := range g.Table() {
			best = max(best, float64(k+1)/float64(took))
		}
		all.rate += n * best
	}
	return all
}

// least is the least bound of the modules.
func (b *bounded) least(seed uint64) attainmentBound {
	least := attainmentBound{Attainment: 1}
	if len(b.came) == 0 {
		return least
	}
	fan, items := simulate.RandomSource(seed, simulate.ForFanout, 0), make([][]int, len(b.came))
	for i := range items {
		frames := make([]int, len(b.graph.Scopes))
		frames[0] = 1
		for at := 1; at < len(frames); at++ {
			for range frames[b.graph.Scopes[at].Parent] {
				frames[at] += simulate.DrawFanout(fan, b.fanout(int32(at)), b.spread)
			}
		}
		items[i] = frames
	}
	above, below := b.around()
	for at, n := range b.graph.Nodes {
		m := relaxed{opens: above[at], closes: b.load.Pipeline.SLO - below[at], each: 1 / b.executors[at].rate, came: b.came}
		for i := range items {
			m.items = append(m.items, items[i][n.Scope])
		}
		if share := m.served() / float64(len(b.came)); share < least.Attainment {
			least = attainmentBound{share, n.Module}
		}
	}
	return least
}

// fanout is the mean number of frames of a scope in a frame above it.
func (b *bounded) fanout(scope int32) float64 {
	return b.load.Pipeline.Module(b.graph.Nodes[b.graph.Scopes[scope].Node].Module).Fanout
}

// around is the least time that a request spends above and below each node. Where it may
// happen to have no items it spends none.
func (b *bounded) around() (above, below []time.Duration) {
	above, below = make([]time.Duration, len(b.graph.Nodes)), make([]time.Duration, len(b.graph.Nodes))
	least := make([]time.Duration, len(b.graph.Nodes))
	for at, n := range b.graph.Nodes {
		if !b.mayHaveNone(n.Scope) {
			least[at] = b.executors[at].least
		}
		for _, d := range n.Down {
			above[d] = max(above[d], above[at]+least[at])
		}
	}
	for at := len(b.graph.Nodes) - 1; at >= 0; at-- {
		for _, d := range b.graph.Nodes[at].Down {
			below[at] = max(below[at], below[d]+least[d])
		}
	}
	return above, below
}

// mayHaveNone says whether a request may have no items in a scope.
func (b *bounded) mayHaveNone(scope int32) bool {
	for ; scope > 0; scope = b.graph.Scopes[scope].Parent {
		if mean := b.fanout(scope); mean < 1 || b.spread == simulate.SpreadPoisson && mean != math.Floor(mean) {
			return true
		}
	}
	return false
}

// relaxed is a module by itself, as a fluid.
type relaxed struct {
	opens, closes time.Duration // of a request, after it came
	each          float64       // nanoseconds of an item
	came          []time.Duration
	items         []int // of each request
}

// served is how many requests the module can do, in parts: those without items, and of the
// others as much as fits, those with the fewest first. The work that can be done of a set
// of requests has diminishing returns, so that taking the best one first is best.
func (m *relaxed) served() float64 {
	most := slices.Max(m.items)
	sum, done := 0.0, 0.0
	for few := range most + 1 {
		n := 0
		for _, k := range m.items {
			if k == few {
				n++
			}
		}
		switch {
		case n == 0:
		case few == 0:
			sum += float64(n)
		default:
			all := m.work(few)
			sum += min(float64(n), (all-done)/(m.each*float64(few)))
			done = all
		}
	}
	return sum
}

// work is how much can be done of the requests with so many items at most, in nanoseconds.
// All have as much time, so that the first to come is due first.
func (m *relaxed) work(most int) float64 {
	at, sum := 0.0, 0.0
	for i, came := range m.came {
		if m.items[i] > most {
			continue
		}
		at = max(at, float64(came+m.opens))
		part := min(m.each*float64(m.items[i]), max(0, float64(came+m.closes)-at))
		at += part
		sum += part
	}
	return sum
}
