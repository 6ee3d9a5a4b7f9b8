package experiments

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// attainmentBound is the most that any rule could answer in time on the executors of a
// plan, even with all arrivals known beforehand.
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
			return attainmentBound{}, fmt.Errorf("bound: the plan of pipeline %q lacks module %q; make a new plan", p.Pipeline, g.Nodes[i].Module)
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
		for k, took := range g.DurationTable() {
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
				frames[at] += simulate.DrawFanout(fan, b.splits(int32(at)), b.spread)
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

// splits is the module whose items the frames of a scope are.
func (b *bounded) splits(scope int32) *pipelines.Module {
	return b.load.Pipeline.Module(b.graph.Nodes[b.graph.Scopes[scope].Node].Module)
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

// mayHaveNone reports whether a request may have no items in a scope.
func (b *bounded) mayHaveNone(scope int32) bool {
	for ; scope > 0; scope = b.graph.Scopes[scope].Parent {
		if m := b.splits(scope); m.Fanout < 1 || b.spread == simulate.SpreadPoisson && float64(m.MostItems()) != m.Fanout {
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

// limitProblem is one model on a pool of equal executors.
type limitProblem struct {
	Arrivals  []time.Duration // rising
	Durations []time.Duration // Durations[b-1] for a batch of b; not falling
	SLO       time.Duration
	Executors int
}

// limitOptions states how much work to spend.
type limitOptions struct {
	Cell   time.Duration // of the time axis, for prices; 0 means SLO/100
	Rounds int           // of price changes; 0 means 100
}

// limitResult is a bound on the requests that can be served in time.
type limitResult struct {
	Served     float64 // no schedule serves more
	Attainment float64 // Served as a share of all requests
	Rounds     int
}

// Describe returns the bound in one line.
func (r limitResult) Describe() string {
	return fmt.Sprintf("at most %.1f requests in time, %.4f of all (after %d rounds)", r.Served, r.Attainment, r.Rounds)
}

// Tuning of the search for prices.
const (
	hoped      = 0.985 // share of the requests that steps aim for (Polyak)
	patience   = 10    // rounds without progress before steps get shorter
	shorter    = 0.7
	noticeable = 0.1 // requests
)

// upperLimit bounds what any dispatcher could serve in time, even with all arrivals known
// beforehand. More rounds and smaller cells bring the bound down; every bound holds.
func upperLimit(p limitProblem, o limitOptions) (limitResult, error) {
	if err := p.check(); err != nil {
		return limitResult{}, err
	}
	if o.Rounds <= 0 {
		o.Rounds = 100
	}
	if o.Cell <= 0 {
		o.Cell = max(1, p.SLO/100)
	}
	if len(p.Arrivals) == 0 {
		return limitResult{Attainment: 1}, nil
	}
	s := newSearch(p, o.Cell.Seconds())
	least, step, stale := float64(len(p.Arrivals)), 1.0, 0
	for range o.Rounds {
		value := s.solve()
		if value < least-noticeable {
			stale = 0
		} else if stale++; stale > patience {
			step, stale = step*shorter, 0
		}
		least = min(least, value)
		s.reprice(step * max(1, value-hoped*float64(len(p.Arrivals))))
	}
	return limitResult{Served: least, Attainment: least / float64(len(p.Arrivals)), Rounds: o.Rounds}, nil
}

func (p limitProblem) check() error {
	if p.SLO <= 0 || p.Executors <= 0 || len(p.Durations) == 0 {
		return fmt.Errorf("a limit needs an SLO, executors and durations above zero")
	}
	for b := range p.Durations {
		if p.Durations[b] <= 0 || b > 0 && p.Durations[b] < p.Durations[b-1] {
			return fmt.Errorf("the duration of a batch of %d must be above zero and no shorter than a smaller one's", b+1)
		}
	}
	for i, a := range p.Arrivals {
		if a < 0 || i > 0 && a < p.Arrivals[i-1] {
			return fmt.Errorf("arrival %d, at %v, must not be negative or before the one it follows", i, a)
		}
	}
	return nil
}

// search holds the prices and the shortest path for them. Times are in
// seconds.
type search struct {
	problem   limitProblem
	arrivals  []float64
	durations []float64
	slo, cell float64
	executors float64

	price []float64 // per second of an executor, by cell
	worth []float64 // of the time from zero to the start of a cell
	usage []float64 // executors at work beyond those that there are, by cell
	best  []float64 // value of the first i requests
	size  []int     // of the batch that ends there; 0 where the request is left out
	start []float64 // of that batch
}

func newSearch(p limitProblem, cell float64) *search {
	s := &search{problem: p, slo: p.SLO.Seconds(), cell: cell, executors: float64(p.Executors)}
	for _, a := range p.Arrivals {
		s.arrivals = append(s.arrivals, a.Seconds())
	}
	for _, d := range p.Durations {
		if d <= p.SLO {
			s.durations = append(s.durations, d.Seconds())
		}
	}
	n := len(p.Arrivals)
	cells := int(math.Ceil((s.arrivals[n-1]+s.slo)/cell)) + 2
	s.price, s.worth, s.usage = make([]float64, cells), make([]float64, cells+1), make([]float64, cells)
	s.best, s.size, s.start = make([]float64, n+1), make([]int, n+1), make([]float64, n+1)
	return s
}

// upTo is the worth of the time from zero to t.
func (s *search) upTo(t float64) float64 {
	c := int(t / s.cell)
	return s.worth[c] + (t-float64(c)*s.cell)*s.price[c]
}

// solve finds the best batches at the present prices and returns the bound.
func (s *search) solve() float64 {
	for c, price := range s.price {
		s.worth[c+1] = s.worth[c] + price*s.cell
	}
	n := len(s.arrivals)
	for i := range s.best {
		s.best[i] = math.Inf(-1)
	}
	s.best[0] = 0
	for i := range n {
		v := s.best[i]
		if v > s.best[i+1] {
			s.best[i+1], s.size[i+1] = v, 0
		}
		for b := 1; b <= len(s.durations) && i+b <= n; b++ {
			low, high := s.arrivals[i+b-1], s.latest(i, b)
			if low > high {
				break
			}
			if v+float64(b) <= s.best[i+b] {
				continue // not even free of charge
			}
			cost, at := s.cheapest(low, high, s.durations[b-1])
			if w := v + float64(b) - cost; w > s.best[i+b] {
				s.best[i+b], s.size[i+b], s.start[i+b] = w, b, at
			}
		}
	}
	return s.best[n] + s.worth[len(s.price)]*s.executors
}

// latest is when a batch of b that begins with request i must start.
func (s *search) latest(i, b int) float64 {
	return (s.problem.Arrivals[i] + s.problem.SLO - s.problem.Durations[b-1]).Seconds()
}

// cheapest is the start within low..high at which running for d costs least.
// The cost is linear between instants at which start or end cross cells.
func (s *search) cheapest(low, high, d float64) (cost, at float64) {
	cost, at = s.upTo(low+d)-s.upTo(low), low
	try := func(t float64) {
		if c := s.upTo(t+d) - s.upTo(t); c < cost {
			cost, at = c, t
		}
	}
	try(high)
	for c := math.Floor(low/s.cell) + 1; c*s.cell < high; c++ {
		try(max(low, c*s.cell))
	}
	for c := math.Floor((low+d)/s.cell) + 1; c*s.cell < high+d; c++ {
		try(max(low, c*s.cell-d))
	}
	return cost, at
}

// reprice moves the prices along the usage, by a step of that length.
func (s *search) reprice(step float64) {
	for c := range s.usage {
		s.usage[c] = -s.executors
	}
	for i := len(s.arrivals); i > 0; i -= max(1, s.size[i]) {
		if b := s.size[i]; b > 0 {
			s.occupy(s.start[i], s.start[i]+s.durations[b-1])
		}
	}
	norm := 0.0
	for c, u := range s.usage {
		if u > 0 || s.price[c] > 0 {
			norm += u * u
		}
	}
	if norm == 0 {
		return
	}
	for c, u := range s.usage {
		s.price[c] = max(0, s.price[c]+step*u/(norm*s.cell))
	}
}

// occupy adds a running batch to the usage.
func (s *search) occupy(from, to float64) {
	first, last := int(from/s.cell), int(to/s.cell)
	for c := first; c <= last; c++ {
		a, b := max(from, float64(c)*s.cell), min(to, float64(c+1)*s.cell)
		s.usage[c] += max(0, b-a) / s.cell
	}
}
