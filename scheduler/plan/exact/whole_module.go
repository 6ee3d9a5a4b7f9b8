package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Cost model whole: whole devices, each for one module.
//
// Lower bound. Let a module receive T requests per second, to be answered
// within L. Under any rule of dispatch a batch of configuration c = (b, d, s)
// holds at most min(b, T·(L - d)) requests: no more than fit, and none that
// came earlier than L - d before it starts; or one, where requests come one by one, g
// apart (g = 1/T; else 0). A device starts at most s batches
// every d seconds. So n_h devices of each kind h serve at most
//
//	T · sum over h of n_h·v_h(L),   v_h(L) = max over c of h of s·P/d,   P = min(b/T, max(g, L - d))
//
// requests per second, and every plan that answers all of them has
// sum n_h·v_h(L) >= 1: a knapsack to be covered with whole devices (see
// plan.ModuleProblem.Serves). Its least cost is a bound for plans of any number of groups,
// any periods and any offsets. The relaxation to fractions of devices is the
// proportional cost model's optimum.
//
// One kind reaches it. n devices that all run c, started in turn every d/(s·n)
// seconds, each taking what has come, keep L as soon as n·s·P/d
// >= 1: the very condition. So where one kind of hardware is cheapest the plan
// is optimal without any restriction. Mixtures of kinds are tried by what
// shares can prove, and where that is dearer than the bound, refuted returns how much of
// the difference is real: then optimality is relative to plans with at most two groups a
// module, one a kind, that release their first batches together (Restriction of the plan
// states so). Two groups are proven by the processor-demand test, which takes the stream
// for a fluid, plus one gap between two requests (plan.SingleMargin): counting them singly
// might need less, but such a proof would not hold for requests that come late.

// wholeModule is a module with the ways to serve it with whole devices.
type wholeModule struct {
	*plan.ModuleProblem
	kinds    []kind
	mixtures []*mixture // of several kinds, cheapest first, up to limit
	limit    float64    // no mixture that costs less is missing
	effort   *int       // choices of configurations that may still be looked at
	steps    *steps     // of enumerating mixtures that are left
	options  *plan.Options
}

// maxEffort bounds the choices of configurations that are looked at for one
// plan, to prove mixtures sound or refute them: about half a second.
const maxEffort = 40_000

// mixture is a number of devices of each of several kinds.
type mixture struct {
	counts []int // by kind
	weight float64
	least  time.Duration // below it the devices cannot serve the stream, whatever the dispatch

	proven  bool          // sound has been looked for
	sound   time.Duration // least latency that shares proves, margin included; 0 when there is none
	groups  []member
	divides bool          // each burst between the groups, and does not collect from a fluid
	floor   time.Duration // below it two groups are not sound in any periods; at least least
}

// kinds is how many of them the mixture has devices of.
func (m *mixture) kinds() int {
	used := 0
	for _, n := range m.counts {
		if n > 0 {
			used++
		}
	}
	return used
}

func newModule(s *plan.ModuleProblem, p *wholeProblem) *wholeModule {
	return &wholeModule{ModuleProblem: s, kinds: kinds(s.Configs), effort: &p.effort, steps: &p.steps, options: &p.Options}
}

// single is the cheapest plan of one kind within the budget.
func (w *wholeModule) single(budget time.Duration) (best member, weight float64, ok bool) {
	weight = math.Inf(1)
	for _, k := range w.kinds {
		for _, c := range k.configs {
			n, fits := devicesNeeded(&c, w.ModuleProblem, budget)
			if !fits || k.count > 0 && n > k.count {
				continue
			}
			cost := float64(n) * c.Weight
			if !ok || plan.Cheaper(cost, weight) || !plan.Cheaper(weight, cost) && c.Duration < best.Duration {
				best, weight, ok = member{c, n}, cost, true
			}
		}
	}
	return best, weight, ok
}

// cheapest is the cheapest sound plan known within the budget.
func (w *wholeModule) cheapest(budget time.Duration) (plan.Schedule, bool) {
	if w.Rate == 0 {
		return plan.Schedule{}, true
	}
	budget = w.ModuleProblem.Within(budget)
	one, weight, ok := w.single(budget)
	if len(w.kinds) > 1 {
		for _, m := range w.mixtures {
			if m.least > budget || ok && !plan.Cheaper(m.weight, weight) {
				continue
			}
			if sound, found := w.prove(m); found && sound <= budget {
				return w.severalKinds(m), true
			}
		}
	}
	if !ok {
		return plan.Schedule{}, false
	}
	return w.oneKind(one, budget), true
}

// Within is the cheapest sound schedule known for a budget that no search has prepared.
func (w *wholeModule) Within(budget time.Duration) (plan.Schedule, bool) {
	if w.Rate == 0 {
		return plan.Schedule{}, true
	}
	budget = w.ModuleProblem.Within(budget)
	if w.limit == 0 {
		_, weight, ok := w.single(budget)
		if !ok {
			weight = w.fullest()
		}
		w.enumerate(weight, budget)
	}
	return w.cheapest(budget)
}

// fullest is the weight of all devices of the kinds that are limited.
func (w *wholeModule) fullest() float64 {
	sum := 0.0
	for _, k := range w.kinds {
		sum += float64(k.count) * k.weight
	}
	return sum
}

// oneKind is the schedule of one group. It collects full batches where the budget
// allows and otherwise for as long as it does, or one request where none comes in that
// time: no oftener than the devices can.
func (w *wholeModule) oneKind(m member, budget time.Duration) plan.Schedule {
	if w.bursts() {
		return w.oneKindInBursts(m, budget)
	}
	window := budget - m.Duration
	period := min(plan.Collection(m.Batch, w.Rate), max(w.WholeGap(), window))
	t := plan.Allocation{Config: m.Config, Machines: float64(m.n), Rate: w.Rate, Collect: w.Rate, Period: period, Worst: m.Duration + min(period, window)}
	return plan.Schedule{Allocations: []plan.Allocation{t}, Worst: t.Worst, Weight: float64(m.n) * m.Weight}
}

// severalKinds is the schedule of a mixture that is sound.
func (w *wholeModule) severalKinds(m *mixture) plan.Schedule {
	if m.divides {
		return w.dividedBursts(m)
	}
	split, _ := shares(w.Rate, m.groups, (m.sound - w.margin()).Seconds())
	set := plan.Schedule{Worst: m.sound, Weight: m.weight}
	for i, g := range m.groups {
		if split[i].rate <= plan.RateTolerance*w.Rate {
			continue
		}
		set.Allocations = append(set.Allocations, plan.Allocation{
			Config: g.Config, Machines: float64(g.n), Rate: split[i].rate, Collect: w.Rate,
			Period: plan.ToDuration(split[i].period), Worst: m.sound,
		})
	}
	return set
}

// prove looks for the least latency at which the mixture is sound, over the
// configurations that its kinds may run.
func (w *wholeModule) prove(m *mixture) (time.Duration, bool) {
	if m.proven {
		return m.sound, m.sound > 0
	}
	m.proven, m.floor = true, m.least
	const most = time.Duration(math.MaxInt64 / 8)
	best, margin, least := most, w.margin(), m.least
	if w.bursts() {
		if w.proveBursts(m); m.divides {
			best = max(1, m.sound-margin)
		}
		least = max(0, least-margin)
	}
	w.each(m, nil, 0, func(groups []member) {
		to := time.Duration(0)
		for _, g := range groups {
			to = max(to, plan.ToDuration(g.Duration.Seconds()+g.gap()))
		}
		from := least
		if !w.bursts() {
			from = max(from, w.boundOf(groups))
		}
		if from >= best {
			return
		}
		to = min(to, best-1)
		l, ok := leastSound(w.Rate, groups, from-1, to)
		if !ok || l >= best {
			return
		}
		best, m.groups, m.divides = l, slices.Clone(groups), false
	})
	if best < most && !m.divides {
		m.sound = best + margin
	}
	return m.sound, m.sound > 0
}

// margin is what latencies need beyond those of a fluid.
func (w *wholeModule) margin() time.Duration {
	if w.bursts() {
		return plan.ToDuration(w.Bursts.Shaped())
	}
	return plan.SingleMargin(w.Rate)
}

// raise lifts the floor of a proven mixture of two kinds as near to what is
// sound as can be refuted: the margin above what the test refuses.
func (w *wholeModule) raise(m *mixture) {
	margin := plan.SingleMargin(w.Rate)
	fluid := m.sound - margin
	if w.bursts() || m.sound <= m.least+1 || len(m.groups) != 2 || m.floor > m.least {
		return
	}
	for _, below := range []float64{1e-4, 1e-3, 1e-2} {
		latency := fluid.Seconds() * (1 - below)
		all := true
		w.each(m, nil, 0, func(groups []member) {
			all = all && refuted(w.Rate, groups[0], groups[1], latency)
		})
		if all && *w.effort > 0 && !w.options.Stopped() {
			m.floor = max(m.least, plan.WholeNanoseconds(latency)+margin)
			return
		}
	}
}

// boundOf is the least latency, rounded down, at which these groups could serve
// the stream under any dispatch.
func (w *wholeModule) boundOf(groups []member) time.Duration {
	low, high := 0.0, 0.0
	for _, g := range groups {
		high = math.Max(high, g.Duration.Seconds()+float64(g.Batch)/w.Rate)
	}
	for range 40 {
		mid, sum := (low+high)/2, 0.0
		for _, g := range groups {
			sum += float64(g.n) * w.Serves(&g.Config, mid)
		}
		if sum >= 1-plan.RateTolerance {
			high = mid
		} else {
			low = mid
		}
	}
	return plan.WholeNanoseconds(low)
}

// each calls back for every choice of one configuration a kind that gives the
// devices the capacity for the stream.
func (w *wholeModule) each(m *mixture, groups []member, from int, visit func([]member)) {
	for i := from; i < len(m.counts); i++ {
		if m.counts[i] == 0 {
			continue
		}
		for _, c := range w.kinds[i].configs {
			if *w.effort <= 0 || w.options.Stopped() {
				return
			}
			w.each(m, append(groups, member{c, m.counts[i]}), i+1, visit)
		}
		return
	}
	capacity := 0.0
	for _, g := range groups {
		capacity += g.capacity()
	}
	if *w.effort--; *w.effort > 0 && capacity >= w.Rate*(1-plan.RateTolerance) {
		visit(groups)
	}
}

// bound is the least latency, rounded down, at which the devices can serve the
// stream under any dispatch: the root of sum n·v(L) = 1, which rises with L.
func (w *wholeModule) bound(counts []int) (time.Duration, bool) {
	if w.bursts() {
		ok := func(latency float64) bool { return possible(w.ModuleProblem, w.kinds, counts, latency) }
		if !ok(w.Longest) {
			return 0, false
		}
		return plan.WholeNanoseconds(lowest(w.Longest, ok)), true
	}
	covers := func(latency float64) bool {
		sum := 0.0
		for i, n := range counts {
			if n > 0 {
				sum += float64(n) * w.kinds[i].serves(w.ModuleProblem, latency)
			}
		}
		return sum >= 1-plan.RateTolerance
	}
	low, high := 0.0, 0.0
	for i, n := range counts {
		if n == 0 {
			continue
		}
		for _, c := range w.kinds[i].configs {
			high = math.Max(high, c.Duration.Seconds()+float64(c.Batch)/w.Rate)
		}
	}
	if !covers(high) {
		return 0, false
	}
	for high-low > 0.25e-9+1e-12*high {
		if mid := (low + high) / 2; covers(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return plan.WholeNanoseconds(low), true
}

// maxMixtures bounds the mixtures of one module that are looked at, and maxCounted
// the numbers of devices that are tried for them: of devices by the million there
// are too many to count one by one. maxSteps bounds both for all modules of a plan
// together: about two seconds, enough for a dozen modules whatever they are. Bounding a
// mixture takes as long as boundSteps numbers. Every stepsPerLook the search looks whether
// it must end.
const (
	maxMixtures  = 3000
	maxCounted   = 1 << 18
	maxSteps     = 1 << 27
	boundSteps   = 1 << 9
	stepsPerLook = 1 << 12
)

// steps are those that are left of a plan's.
type steps struct {
	left  int
	ended func() bool // the search must end with what it has
}

// take counts some steps, and reports whether there were any left.
func (s *steps) take(n int) bool {
	if before := s.left; s.left > 0 {
		if s.left -= n; before/stepsPerLook != s.left/stepsPerLook && s.ended() {
			s.left = 0
		}
	}
	return s.left > 0
}

// enumerate lists the mixtures of several kinds that cost at most limit and can
// serve the module within budget, cheapest first. Where there are too many the
// limit is lowered, so that none below it is missing.
func (w *wholeModule) enumerate(limit float64, budget time.Duration) {
	w.mixtures, w.limit = nil, limit
	if len(w.kinds) < 2 || w.Rate == 0 {
		return
	}
	e := enumerator{w: w, shares: make([]float64, len(w.kinds)), counts: make([]int, len(w.kinds))}
	e.cheapest = make([]float64, len(w.kinds)+1)
	e.cheapest[len(w.kinds)] = math.Inf(1)
	for i, k := range slices.Backward(w.kinds) {
		e.shares[i], e.cheapest[i] = k.serves(w.ModuleProblem, budget.Seconds()), e.cheapest[i+1]
		if e.shares[i] > 0 {
			e.cheapest[i] = math.Min(e.cheapest[i], k.weight/e.shares[i])
		}
	}
	least := e.cheapest[0]
	for range 40 {
		e.found, e.limit, e.full, e.visits = nil, w.limit, false, 0
		e.visit(0, 0, 0)
		if !e.full {
			break
		}
		w.limit = (w.limit + least) / 2
	}
	if e.full {
		e.found, w.limit = nil, least
	}
	for _, m := range e.found {
		if !w.steps.take(boundSteps) { // no mixture below the limit may be missing
			w.mixtures, w.limit = nil, least
			return
		}
		if least, ok := w.bound(m.counts); ok {
			m.least = least
			w.mixtures = append(w.mixtures, m)
		}
	}
	slices.SortStableFunc(w.mixtures, func(a, b *mixture) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.least, b.least))
	})
}

// enumerator walks the numbers of devices kind by kind.
type enumerator struct {
	w        *wholeModule
	shares   []float64 // of the stream, that one device of a kind serves at best
	cheapest []float64 // the least weight of serving the whole stream with kinds from one on, in fractions of devices
	limit    float64
	counts   []int
	found    []*mixture
	visits   int
	full     bool
}

func (e *enumerator) visit(i int, weight, covered float64) {
	if e.visits++; e.visits > maxCounted || !e.w.steps.take(1) {
		e.full = true
	}
	if e.full {
		return
	}
	if covered >= 1-plan.RateTolerance {
		e.add(weight)
	}
	if i == len(e.counts) {
		return
	}
	if rest := 1 - covered; rest > 0 && weight+rest*e.cheapest[i] > e.limit*(1+plan.CostTolerance) {
		return
	}
	// Kinds before i are fixed; the first further device is of kind k >= i.
	for k := i; k < len(e.counts); k++ {
		kind := &e.w.kinds[k]
		if kind.count == 0 && kind.weight == 0 {
			continue // as many as you like for nothing need no other kind
		}
		for n := 1; kind.count == 0 || n <= kind.count; n++ {
			more := weight + float64(n)*kind.weight
			if more > e.limit*(1+plan.CostTolerance) || e.full {
				break
			}
			e.counts[k] = n
			e.visit(k+1, more, covered+float64(n)*e.shares[k])
		}
		e.counts[k] = 0
	}
}

func (e *enumerator) add(weight float64) {
	used := 0
	for _, n := range e.counts {
		if n > 0 {
			used++
		}
	}
	if used < 2 {
		return
	}
	if len(e.found) >= maxMixtures {
		e.full = true
		return
	}
	e.found = append(e.found, &mixture{counts: slices.Clone(e.counts), weight: weight})
}
