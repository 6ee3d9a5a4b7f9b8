package exact

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Cost model shared: whole devices again, but what a module needs beyond full
// devices of its own may run on a device that it shares with others.
//
// A group on a shared device is a task: a batch is closed every P seconds, runs
// for d without interruption and must be done R after it was closed. A device
// takes the tasks that pass the non-preemptive demand test with blocking
// (demand.NonPreemptive) and whose memory fits together. A request waits at most
// the window W = L - R for its batch. A group that receives the whole stream has
// P <= W, and P <= b/f for the rate f that it receives. Beside devices of its
// module's own it may take longer: see assignment.
//
// Lower bound: a group uses d/P of a device whatever it runs on, and P is at
// most min(b/T, L - d) T/f; so no plan costs less than the proportional optimum.
// Plans pay for whole devices, so the bound is raised to the next sum of prices
// that devices can make.
//
// Devices that others hold have their tasks already and take more as long as the
// test holds. Their use is paid in proportion: never less than the share that it
// is, so that the bound holds, but for sums of whole prices.
//
// Which groups go together is a bin packing in which the sizes can be chosen,
// and is searched by heuristics: several splits of the SLO, in each several ways
// to divide the modules and several orders of packing. Status Optimal therefore
// means that the bound was reached; Feasible plans carry the gap.

// packer packs the modules of one or several pipelines.
type packer struct {
	problems []*problem
	kinds    []sharedKind
	held     []bin       // devices of others that have room
	known    *wholeBound // the bound, once computed

	steps [][]split.Steps // see ownSteps
	work  int             // see mostWork

	// Under the budgets that are looked at:
	divided      []divided              // by module of all pipelines and rule
	arrangements map[string]arrangement // of parts, by what is arranged
	key          []byte                 // of the last one looked up
}

// allBudgets are the budgets of all modules of all pipelines.
type allBudgets [][]time.Duration

// packing is a complete plan: what every module runs alone and what it shares.
type packing struct {
	budgets allBudgets
	parts   []assignment
	bins    []bin
	weight  float64
}

// choose lists how a residual rate may run on shared devices.
func (s *packer) choose(p *assignment, configs []plan.Config) {
	p.choices, p.size = make([][]candidate, len(s.kinds)), math.Inf(1)
	for k := range configs {
		c := &configs[k]
		if c.Concurrency > 1 || c.Duration >= p.budget {
			continue
		}
		i := slices.IndexFunc(s.kinds, func(h sharedKind) bool { return h.hardware == c.Hardware })
		offer := func(choice candidate) {
			if choice.Duration >= p.budget {
				return
			}
			p.choices[i] = append(p.choices[i], choice)
			if use := float64(choice.Duration) / float64(p.longest(&choice, p.budget-choice.Duration)); use > 0 && use <= 1+plan.RateTolerance {
				p.size = math.Min(p.size, c.Weight*use)
			}
		}
		fluid := candidate{Config: c, filling: filling(p.residual, c)}
		if p.single && len(p.dedicated) == 0 {
			offer(inBursts(c, 1, p.gap))
		}
		if p.items > 0 {
			offer(inBursts(c, p.items, p.gap))
			if fluid.spread = p.gap; len(p.dedicated) > 0 || c.Duration+p.gap >= p.budget {
				continue
			}
		}
		offer(fluid)
	}
}

// divide makes the part of a module under a budget; false when the rule has
// nothing to offer.
func (s *packer) divide(pipeline, module int, budget time.Duration, by division) (assignment, bool) {
	m := s.problems[pipeline].Modules[module]
	p := assignment{pipeline: pipeline, module: module, by: by, budget: budget, gap: plan.WholeNanoseconds(m.Bursts.Gap), branch: m.Branch}
	if m.Single && s.problems[pipeline].branches() {
		p.single, p.gap = true, plan.WholeNanoseconds(m.Gap())
	}
	if m.Rate == 0 {
		return p, by == dedicated
	}
	if by == dedicated {
		set, ok := s.problems[pipeline].own.Modules[module].Within(budget)
		p.dedicated = set.Allocations
		return p, ok
	}
	if m.Bursts.Items > 0 {
		return s.divideBursts(p, m)
	}
	best, value := plan.Config{}, math.Inf(1)
	full := 0.0
	for _, c := range m.Configs {
		n := math.Floor(m.Rate/c.Throughput() + plan.RateTolerance)
		if by == oneDeviceLess {
			n--
		}
		if n < 0 || n > 0 && c.Duration.Seconds()+c.Interval()/n > (budget-plan.SingleMargin(m.Rate)).Seconds() || c.Duration >= budget {
			continue
		}
		// What a request costs on full devices; with none of them, what the
		// whole module uses of a shared one.
		v := c.Unit()
		if n == 0 {
			use := float64(c.Duration) / float64(min(wholeStream(m).period(budget-c.Duration), filling(m.Rate, &c)))
			if use > 1+plan.RateTolerance {
				continue
			}
			v = c.Weight * use / m.Rate
		}
		if v < value {
			best, value, full = c, v, n
		}
	}
	if math.IsInf(value, 1) {
		return p, false
	}
	return s.dividedBy(p, best, full)
}

// dividedBy gives a part so many full devices of its own; false when what is left fits
// on no device.
func (s *packer) dividedBy(p assignment, c plan.Config, full float64) (assignment, bool) {
	m := s.problems[p.pipeline].Modules[p.module]
	p.residual, p.rest, p.dedicated, p.items = m.Rate, wholeStream(m), nil, m.Bursts.Items
	if full > 0 && p.items > 0 {
		s.ownBursts(&p, member{c, int(full)})
	} else if full > 0 {
		t := plan.Allocation{Config: c, Machines: full, Rate: math.Min(m.Rate, full*c.Throughput()), Worst: p.budget}
		t.Collect, t.Period = t.Rate, plan.ToDuration(c.Interval()/full)
		p.dedicated, p.residual = []plan.Allocation{t}, m.Rate-t.Rate
		p.rest = restOf(m.Rate, &t, p.budget)
	}
	if p.residual <= plan.RateTolerance*m.Rate {
		p.residual = 0
		return p, true
	}
	s.choose(&p, m.Configs)
	return p, !math.IsInf(p.size, 1)
}

// divideBursts makes the part of a module to which items come in bursts: one or two devices
// fewer than it needs, of the configuration with which those and the rest cost least.
func (s *packer) divideBursts(p assignment, m *plan.ModuleProblem) (best assignment, ok bool) {
	for _, c := range m.Configs {
		n, fits := devicesNeeded(&c, m, p.budget)
		if n--; p.by == oneDeviceLess {
			n--
		}
		if !fits || n < 0 {
			continue
		}
		if one, can := s.dividedBy(p, c, float64(n)); can && (!ok || plan.Cheaper(one.uses(), best.uses())) {
			best, ok = one, true
		}
	}
	return best, ok
}

// ownBursts gives a part devices of its own, with as many items of each burst as they do.
func (s *packer) ownBursts(p *assignment, g member) {
	w := s.problems[p.pipeline].own.Modules[p.module]
	batches := w.Bursts.Batches(g.n*g.Concurrency, g.Duration.Seconds(), p.budget.Seconds()-plan.LeastWindow)
	items := min(p.items, batches*g.Batch)
	if items == 0 {
		return
	}
	worst := w.Bursts.Unmixed(plan.Batches(items, g.Batch), g.n*g.Concurrency, g.Duration.Seconds()) + plan.LeastWindow
	own := w.BurstGroup(g.Config, g.n, items, plan.ToDuration(worst))
	p.dedicated, p.items, p.residual = []plan.Allocation{own}, p.items-items, p.residual-own.Rate
}

// How long the search goes on.
const (
	leastGain = 0.02 // of what the emptiest device is used by, to count as better
	// mostWork bounds the configurations that are looked at for all arrangements: a second
	// of one core, and for several pipelines three times as much for each. It counts what is done
	// and not how long that takes, so that a search ends in the same place on any machine.
	mostWork = 120_000_000
	perLook  = 1000   // of it, for budgets that are looked at, for every module
	perFit   = 20_000 // of it, for budgets that are fitted, for every part
	perRank  = 5_000  // of it, where only their use is computed

	rounds   = 120 // splits near the best one that are tried
	patience = 24  // of them may bring nothing
	stamina  = 150 // splits of single pipelines that may bring nothing

	mostStarts = 4 // packings that are improved
	mostWalks  = 2 // of them, where the bound suggests splits
	mostSeeds  = 6 // of random walks, one after the other

	far, little = 0.4, 0.15 // by how much their budgets differ, as factors of two
)

func newPacker(problems []*problem) *packer {
	s := &packer{problems: problems}
	for _, p := range problems {
		for _, m := range p.Modules {
			for _, c := range m.Configs {
				if !slices.ContainsFunc(s.kinds, func(h sharedKind) bool { return h.hardware == c.Hardware }) {
					s.kinds = append(s.kinds, sharedKind{hardware: c.Hardware, price: c.Price, weight: c.Weight, memory: c.DeviceMemory, count: c.Count})
				}
			}
		}
	}
	slices.SortStableFunc(s.kinds, func(a, b sharedKind) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.hardware, b.hardware))
	})
	for i := range s.kinds {
		s.kinds[i].index = i
	}
	s.take(problems[0].Held)
	return s
}

// take opens the devices that others hold, of kinds that some module can use.
func (s *packer) take(held []plan.HeldDevice) {
	for i := range held {
		at := slices.IndexFunc(s.kinds, func(h sharedKind) bool { return h.hardware == held[i].Hardware })
		if at >= 0 && held[i].Share < 1 {
			s.held = append(s.held, bin{kind: s.kinds[at], held: &held[i]})
		}
	}
}

// halted reports that the search must end: it has done as much work as it may, or its
// time is up.
func (s *packer) halted() bool {
	most := mostWork
	if n := len(s.problems); n > 1 {
		most *= 3 * n
	}
	return s.work > most || s.problems[0].Options.Stopped()
}

// search looks for the cheapest packing, near some splits to begin with, and
// returns the lower bounds of the pipelines one by one, and of all of them
// together, in weights; nil when some pipeline has no split at all.
func (s *packer) search() (best *packing, bounds []float64, total float64) {
	starts, bounds, ok := s.starts()
	if !ok {
		return nil, nil, 0
	}
	sides := s.sides()
	bounds = highest(sides, bounds)
	for _, b := range bounds {
		total += b
	}
	certain := func(p *packing) bool { return p.weight <= total*(1+plan.OptimalityGap) }
	done := func() bool { return best != nil && certain(best) }
	var found []*packing
	offer := func(p *packing) {
		if p == nil {
			return
		}
		found = append(found, p)
		if best == nil || plan.Cheaper(p.weight, best.weight) {
			best = p
		}
	}
	for _, b := range starts {
		offer(s.under(b))
		if done() || best != nil && s.halted() {
			break
		}
	}
	if best == nil {
		return nil, nil, 0
	}
	var splits []allBudgets
	if len(sides) == 0 {
		total, splits = s.bound(total, best.weight)
	}
	for _, side := range sides {
		least, _ := side.bound(total, best.weight)
		total = math.Max(total, least)
		for i, p := range s.problems {
			p.own.Restricted = p.own.Restricted || side.problems[i].own.Restricted
		}
	}
	for _, b := range splits {
		if done() || s.halted() {
			break
		}
		offer(s.under(b))
	}
	better := func(p *packing) {
		if plan.Cheaper(p.weight, best.weight) {
			best = p
		}
	}
	for k, from := range promising(found) {
		if done() || s.halted() {
			break
		}
		if len(splits) == 0 {
			better(s.improve(from, certain))
		} else if k < mostWalks {
			better(s.walk(from, splits, certain, 1))
		}
	}
	if len(splits) > 0 && !done() {
		better(s.improve(best, certain))
	}
	for seed := uint64(2); seed <= mostSeeds && !done() && !s.halted(); seed++ {
		better(s.walk(best, splits, certain, seed))
	}
	return s.shorten(best), bounds, total
}

// sides are the problems with one side of each condition only, when or else; none where there are
// no conditions. What keeps all requests keeps those that take one side, so the bound of each holds
// for the whole. That of the modules of both sides does not: they may share the time of a device.
func (s *packer) sides() (list []*packer) {
	if !slices.ContainsFunc(s.problems, (*problem).branches) {
		return nil
	}
	for _, without := range []bool{false, true} {
		var problems []*problem
		for _, p := range s.problems {
			ready := *p.Prepared // its steps run beside others on both sides
			ready.Modules = slices.Clone(ready.Modules)
			for i, m := range ready.Modules {
				one := *m
				if slices.ContainsFunc(m.Branch, func(c demand.Condition) bool { return c.Else == without }) {
					one.Rate, one.Bursts = 0, demand.Bursts{}
				}
				ready.Modules[i] = &one
			}
			side := &problem{Prepared: &ready, declared: &ready, steps: make([]colocated, len(ready.Modules)), proves: p.proves}
			side.own = newWhole(&ready)
			problems = append(problems, side)
		}
		list = append(list, newPacker(problems))
	}
	return list
}

// highest are the bounds of single pipelines by the sides of their conditions, where there are any.
func highest(sides []*packer, bounds []float64) []float64 {
	for k, side := range sides {
		for i, p := range side.problems {
			if _, bound, ok := p.searchProportional(); ok && (k == 0 || bound > bounds[i]) {
				bounds[i] = bound
			}
		}
	}
	return bounds
}

// shorten shortens the budgets of pipelines with bursts as far as that costs nothing, and uses
// no more of devices. Their items
// start when their virtual arrival comes, however soon the modules above are done: what is left
// of the objective is worth most at its end.
func (s *packer) shorten(best *packing) *packing {
	const steps = 8 // of one bisection
	for i, p := range s.problems {
		if !p.phased() {
			continue
		}
		for k, m := range p.Modules {
			low, high := m.Fastest(), best.budgets[i][k]
			for n := 0; n < steps && high-low > 1 && !s.halted(); n++ {
				budgets := slices.Clone(best.budgets)
				budgets[i] = slices.Clone(budgets[i])
				budgets[i][k] = low + (high-low)/2
				if n == 0 {
					budgets[i][k] = low + 2
				}
				if other := s.within(budgets); other != nil && !plan.Cheaper(best.weight, other.weight) && !plan.Cheaper(best.uses(), other.uses()) {
					best, high = other, budgets[i][k]
				} else {
					low = budgets[i][k]
				}
			}
		}
	}
	return best
}

// uses is the weight of what is used of shared devices.
func (p *packing) uses() (sum float64) {
	for i := range p.bins {
		sum += p.bins[i].use * p.bins[i].kind.weight
	}
	return sum
}

// promising are the packings to begin with that cost least, those nearest to having a
// device less first, and of those that use their devices alike one.
func promising(list []*packing) (out []*packing) {
	slices.SortStableFunc(list, func(a, b *packing) int {
		if plan.Cheaper(a.weight, b.weight) || plan.Cheaper(b.weight, a.weight) {
			return cmp.Compare(a.weight, b.weight)
		}
		return cmp.Compare(a.emptiest(), b.emptiest())
	})
	for _, p := range list {
		like := slices.ContainsFunc(out, func(o *packing) bool { return !p.better(o) && !o.better(p) })
		if !like && len(out) < mostStarts {
			out = append(out, p)
		}
	}
	return out
}

// improve puts a packing together again, and under splits near its own, until neither
// helps or it is certain to be the cheapest.
func (s *packer) improve(best *packing, certain func(*packing) bool) *packing {
	random := rand.New(rand.NewPCG(1, 2)) // the same problem has the same plan
	regrouped := false
	for n, last := 0, 0; n < rounds && n-last < patience && !certain(best) && !s.halted(); n++ {
		for !regrouped {
			other := s.regroup(best, certain)
			regrouped = other == best || certain(other) || s.halted()
			best = other
		}
		p := s.under(s.near(best.budgets, []float64{far, little}[n%2], random))
		if p == nil || !p.better(best) {
			continue
		}
		regrouped = !plan.Cheaper(p.weight, best.weight)
		best, last = p, n
	}
	return best
}

// walk tries splits near that of a packing, of all pipelines or of one, and for one those
// that the bound suggests. It takes much less time than improve where modules are many.
func (s *packer) walk(best *packing, splits []allBudgets, certain func(*packing) bool, seed uint64) *packing {
	random := rand.New(rand.NewPCG(seed, 2)) // the same problem has the same plan
	for n, last := 0, 0; n-last < stamina && !certain(best) && !s.halted(); n++ {
		to := s.near(best.budgets, []float64{far, little}[n%2], random)
		if one := random.IntN(len(to)); n%3 != 0 {
			if n%3 == 2 && len(splits) > 0 {
				to = splits[random.IntN(len(splits))]
			}
			with := slices.Clone(best.budgets)
			with[one] = to[one]
			to = with
		}
		if p := s.under(to); p != nil && p.better(best) {
			best, last = p, n
		}
	}
	return best
}

// bound raises what shares of devices cost to what whole ones do, as far as the
// best packing is dearer. Where devices of others are paid by share there are none.
// A bound that holds only for plans with two groups a module is marked as such. It comes
// with suggested splits, and is computed once.
func (s *packer) bound(fluid, best float64) (float64, []allBudgets) {
	if len(s.held) > 0 {
		return fluid, nil
	}
	problems, kinds := s.bounded()
	own := make([][]split.Steps, len(s.problems))
	for i, p := range s.problems {
		own[i] = p.own.Floors()
	}
	if s.known == nil || s.known.Least > best {
		found := boundWhole(problems, kinds, own, fluid, best)
		s.known = &found
	}
	found := s.known
	for _, p := range s.problems {
		p.own.Restricted = found.TwoGroups
	}
	splits := make([]allBudgets, len(found.Splits))
	for k, one := range found.Splits {
		for i, p := range s.problems {
			splits[k] = append(splits[k], p.DAG.Stretch(one[i], p.Pipeline.SLO))
		}
	}
	return found.Least, splits
}

// bounded are the problems and kinds of devices as the bound has them.
func (s *packer) bounded() (problems []*plan.Prepared, kinds []boundDevice) {
	for _, p := range s.problems {
		problems = append(problems, p.Prepared)
	}
	for _, h := range s.kinds {
		kinds = append(kinds, boundDevice{Hardware: h.hardware, Weight: h.weight})
	}
	return problems, kinds
}

// better reports whether a packing costs less, or as much with a device that is
// nearer to being empty.
func (p *packing) better(other *packing) bool {
	if plan.Cheaper(p.weight, other.weight) || plan.Cheaper(other.weight, p.weight) {
		return p.weight < other.weight
	}
	return p.emptiest() < other.emptiest()*(1-leastGain)
}

// emptiest is the least used part of a shared device, in weights.
func (p *packing) emptiest() float64 {
	least := math.Inf(1)
	for i := range p.bins {
		least = math.Min(least, p.bins[i].use*p.bins[i].kind.weight)
	}
	return least
}
