package paper

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// policy is a published way to plan: the steps of policy harpagon that it has,
// and what it does otherwise. It splits the objective and then serves every module
// within its budget.
type policy struct {
	lacks []string // steps that it does not have
	split string   // the only way in which it splits, as Options.Split has it; empty where that is open

	// concurrent policies use profile points with several batches at a time on a
	// machine where the profile has them.
	concurrent bool

	// module is how a module is served within a budget.
	module func(s *search, m *plan.ModuleProblem) moduleSolver

	// rule judges worst cases; nil for the one that the options leave.
	rule latencyRule

	// fastest starts Algorithm 2 at the configurations of the shortest worst case.
	fastest bool

	// resize, where it is set, changes the budgets that a split ends with.
	resize func(s *search, budgets []time.Duration) []time.Duration

	// step is the unit of quantized splitting for an objective, where it follows
	// from that.
	step func(slo time.Duration) time.Duration

	// share, where it is set, puts partly used machines onto devices that modules
	// share.
	share func(s *search, sets []plan.Schedule, budgets []time.Duration) []plan.Device
}

// moduleSolver serves one module: a value for each policy and module.
type moduleSolver interface {
	// solve is the cheapest schedule that the policy finds within the budget;
	// false where it finds none. The module receives requests.
	solve(budget time.Duration) (plan.Schedule, bool)
}

// Complete checks the options and switches off what the policy lacks.
func (p policy) Complete(o plan.Options) (plan.Options, error) {
	if err := o.Check(); err != nil {
		return o, err
	}
	if _, err := parseSplit(o.Split); err != nil {
		return o, err
	}
	o.Concurrency = o.Concurrency || p.concurrent
	o.Without = append(slices.Clone(o.Without), p.lacks...)
	if p.split != "" {
		o.Split = p.split
	}
	return o, nil
}

// Split divides the objective as the policy does.
func (p policy) Split(ready *plan.Prepared) (plan.Budgets, error) {
	s, err := p.begin(ready)
	if err != nil {
		return nil, err
	}
	found, err := s.found()
	if err != nil {
		return nil, err
	}
	return s.ByName(found), nil
}

// Schedule serves every module within its budget.
func (p policy) Schedule(ready *plan.Prepared, b plan.Budgets) (plan.Plan, error) {
	s, err := p.begin(ready)
	if err != nil {
		return plan.Plan{}, err
	}
	budgets, err := s.InOrder(b)
	if err != nil {
		return plan.Plan{}, err
	}
	return s.plan(budgets)
}

// Solve takes both steps.
func (p policy) Solve(ready *plan.Prepared) (plan.Plan, error) {
	s, err := p.begin(ready)
	if err != nil {
		return plan.Plan{}, err
	}
	found, err := s.found()
	if err != nil {
		return plan.Plan{}, err
	}
	return s.plan(found)
}

// Certify does nothing: these policies prove no bound.
func (policy) Certify(*plan.Prepared, *plan.Plan) {}

// search plans one pipeline by one policy.
type search struct {
	*plan.Prepared
	policy  policy
	rule    latencyRule
	way     splitting
	solvers []moduleSolver
	rates   []float64 // rates with the dummy requests that the split needs; nil when none
}

func (p policy) begin(ready *plan.Prepared) (*search, error) {
	s := p.search(ready)
	if q := s.way.step; q > 0 && s.Pipeline.SLO/q > maxSteps {
		return nil, fmt.Errorf("plan: split %q cuts an SLO of %s into more than %d steps; take a longer step", s.Options.Split, quantity.Duration(s.Pipeline.SLO), maxSteps)
	}
	return s, nil
}

func (p policy) search(ready *plan.Prepared) *search {
	s := &search{Prepared: ready, policy: p, rule: p.rule}
	if s.rule == nil {
		s.rule = ruleOf(ready.Options)
	}
	s.way, _ = parseSplit(ready.Options.Split) // checked by Complete
	if p.step != nil {
		s.way.step = p.step(s.Pipeline.SLO)
	}
	s.solvers = make([]moduleSolver, len(s.Modules))
	for i, m := range s.Modules {
		s.solvers[i] = p.module(s, m)
	}
	return s
}

// found is the split, or an *plan.InfeasibleError.
func (s *search) found() ([]time.Duration, error) {
	if err := s.checkPath(); err != nil {
		return nil, err
	}
	budgets, ok := s.divide()
	if !ok {
		return nil, s.noSplit()
	}
	return budgets, nil
}

func (s *search) checkPath() error {
	collects := s.Options.Lacks("tc") || s.Options.Lacks("dummy") // then fastest has the time to collect
	return s.CheckPath(s.fastestAll(), collects)
}

func (s *search) noSplit() error {
	return s.NoSplit(s.hint("; the rate is low, and dummy requests are switched off"))
}

// hint is text where the caller has switched dummy requests off, else empty.
func (s *search) hint(text string) string {
	if s.Options.Lacks("dummy") && !slices.Contains(s.policy.lacks, "dummy") {
		return text
	}
	return ""
}

// divide splits the objective.
func (s *search) divide() ([]time.Duration, bool) {
	switch {
	case len(s.Modules) == 1:
		return []time.Duration{s.Pipeline.SLO}, true
	case s.way.kind == "even":
		return s.even(), true
	case s.way.kind == "quantized":
		return s.quantized(s.way.step)
	}
	budgets, ok := s.descent()
	return s.resized(budgets), ok
}

// resized are the budgets of a split that Algorithm 2 ends with.
func (s *search) resized(budgets []time.Duration) []time.Duration {
	if s.policy.resize == nil || budgets == nil {
		return budgets
	}
	return s.policy.resize(s, budgets)
}

// generator is a moduleSolver that may add dummy requests to a schedule, within the
// budget, where that lowers the cost.
type generator interface {
	fill(set plan.Schedule, budget time.Duration) plan.Schedule
}

// solve serves module i within a budget, without the dummy generator.
func (s *search) solve(i int, budget time.Duration) (plan.Schedule, bool) {
	if s.Modules[i].Rate == 0 {
		return plan.Schedule{}, true
	}
	return s.solvers[i].solve(budget)
}

// solveOwn serves module i within a budget by its own requests, without dummy requests.
func (s *search) solveOwn(i int, budget time.Duration) (plan.Schedule, bool) {
	if a, ok := s.solvers[i].(*algorithm1); ok {
		set, _, ok := a.allocate(a.Rate, budget)
		return set, ok
	}
	return s.solve(i, budget)
}

// solveFilled serves module i within a budget.
func (s *search) solveFilled(i int, budget time.Duration) (plan.Schedule, bool) {
	set, ok := s.solve(i, budget)
	if g, fills := s.solvers[i].(generator); ok && fills && s.Modules[i].Rate > 0 {
		set = g.fill(set, budget)
	}
	return set, ok
}

// schedule serves every module within its budget. What is left of the objective goes to
// modules that save by it (the latency reassigner), and dummy requests where they save.
// The papers do not state which comes first; both orders are tried, and the cheaper plan is
// taken, so that neither step ever costs anything: without dummy requests no workload of
// the papers is cheaper (Harpagon, section IV-C: 15.8 % gain by them, by the average that
// all lose without).
func (s *search) schedule(budgets []time.Duration) ([]plan.Schedule, error) {
	sets := make([]plan.Schedule, len(s.Modules))
	for i := range s.Modules {
		set, ok := s.solve(i, budgets[i])
		if !ok {
			return nil, s.NoSchedule(i, budgets[i], s.hint("; the last of them come too slowly to fill a batch, and dummy requests are switched off"))
		}
		sets[i] = set
	}
	if s.Options.Lacks("reassign") {
		s.fill(sets, budgets)
		return sets, nil
	}
	filled := slices.Clone(sets)
	s.fill(filled, budgets)
	once := s.Options.Lacks("reassign:one")
	split.Reassign(s.Prepared, filled, once, s.solveFilled)
	split.Reassign(s.Prepared, sets, once, s.solveOwn)
	s.fill(sets, budgets)
	if plan.Cheaper(weight(filled), weight(sets)) {
		sets = filled
	}
	return sets, nil
}

// fill has the dummy generators at work, each within the budget of its module or the time
// that its schedule takes, as far as the others leave it that.
func (s *search) fill(sets []plan.Schedule, budgets []time.Duration) {
	for i := range sets {
		g, fills := s.solvers[i].(generator)
		if !fills || s.Modules[i].Rate == 0 {
			continue
		}
		left := s.Pipeline.SLO - s.DAG.Around(plan.Worsts(sets))[i]
		sets[i] = g.fill(sets[i], min(left, max(budgets[i], sets[i].Worst)))
	}
}

func weight(sets []plan.Schedule) (sum float64) {
	for i := range sets {
		sum += sets[i].Weight
	}
	return sum
}

// plan serves every module within its budget, and writes the plan.
func (s *search) plan(budgets []time.Duration) (plan.Plan, error) {
	sets, err := s.schedule(budgets)
	if err != nil {
		return plan.Plan{}, err
	}
	if !s.Options.Lacks("reassign") {
		budgets = s.DAG.Stretch(plan.Worsts(sets), s.Pipeline.SLO)
	}
	if s.policy.share == nil || s.Options.CostModel != plan.CostShared {
		return s.Write(sets, budgets), nil
	}
	devices := s.policy.share(s, sets, budgets)
	out := s.Write(sets, budgets)
	out.UseDevices(devices)
	return out, nil
}

// fastestAll are the least times in which the modules can answer.
func (s *search) fastestAll() []time.Duration {
	list := make([]time.Duration, len(s.Modules))
	for i, m := range s.Modules {
		list[i] = s.fastest(m)
	}
	return list
}

// fastest is the least time in which the module can answer: its shortest
// duration where dummy requests may fill the batch at any rate, and otherwise
// with the time that the batch takes to fill.
func (s *search) fastest(m *plan.ModuleProblem) time.Duration {
	if m.Rate == 0 {
		return 0
	}
	least := time.Duration(math.MaxInt64)
	for _, c := range m.Configs {
		d := s.rule.fastest(c)
		if s.Options.Lacks("dummy") {
			d = s.worstAt(c, m.Rate)
		}
		least = min(least, d)
	}
	return least
}

// worstAt is the worst case of serving the whole rate with c, as Algorithm 2
// judges configurations.
func (s *search) worstAt(c plan.Config, rate float64) time.Duration {
	if rate == 0 {
		return 0
	}
	worst := s.rule.full(c, rate)
	if rate < c.Throughput()*(1-plan.RateTolerance) {
		worst = max(worst, s.rule.partial(c, rate))
	}
	return worst
}
