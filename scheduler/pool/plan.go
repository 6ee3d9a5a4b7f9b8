package pool

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// The policies.
const (
	PolicyKairos      = "kairos"
	PolicyExact       = "exact"
	PolicyHomogeneous = "homogeneous"
	PolicyKairosPlus  = "kairos+" // evaluates configurations by simulation; see searches.go
)

// Policies lists the policies, the default first.
func Policies() []string {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
	}
	return names
}

// maker is a policy by its name, and what it does.
type maker struct {
	name string
	run  func(s *solver, plan *Plan, all []configuration, choice configuration) error

	estimates bool // plans by the paper's estimate, which is reported beside the simulated goodput
}

// makers lists the policies, the default first; pipelines.PlanPolicies lists what
// declarations may set of them.
func makers() []maker {
	return []maker{
		{name: PolicyExact, run: (*solver).exact},
		{name: PolicyKairos, estimates: true, run: func(s *solver, plan *Plan, _ []configuration, choice configuration) error {
			return s.kairos(plan, choice)
		}},
		{name: PolicyHomogeneous, run: func(s *solver, plan *Plan, _ []configuration, _ configuration) error { return s.homogeneous(plan) }},
		{name: PolicyKairosPlus, run: func(s *solver, plan *Plan, all []configuration, _ configuration) error {
			return s.kairosPlus(plan, all)
		}},
	}
}

// compared lists the policies that comparisons show by default; the others search long for
// what exact finds.
func compared() []string { return []string{PolicyExact, PolicyKairos, PolicyHomogeneous} }

// Status states how good a plan is known to be.
type Status string

// The statuses.
const (
	// Optimal: no configuration within the budget has a higher goodput in the
	// same simulation, by more than its tolerance.
	Optimal    Status = "optimal"
	Feasible   Status = "feasible"
	Infeasible Status = "infeasible"
)

// Defaults of Options.
const (
	DefaultQueries = 20_000

	// defaultWork bounds the simulations of policy exact, in queries times
	// instances: some 400 for a dozen instances, some 40 for ten dozen.
	defaultWork      = 120_000_000
	leastSimulations = 8
)

// Bounds of how many queries a simulation plays, whatever the Options.
const (
	minSpans   = 50 // objectives that one simulation lasts, at least
	maxQueries = 500_000
)

// Options of planning. The zero value is policy exact with its defaults.
type Options struct {
	Policy      string
	Queries     int    // that one simulation plays; 0 means DefaultQueries
	Simulations int    // configurations that policy exact or a search may try; 0 means as many as take about a minute, and all of a search
	Seed        uint64 // of the queries

	// Stop is called before each configuration that is tried; true ends the search with the
	// best one so far. Nil is never.
	Stop func() bool
}

// Check reports what is wrong with the options.
func (o Options) Check() error {
	if o.Policy != "" && !slices.Contains(Policies(), o.Policy) {
		return fmt.Errorf("there is no policy %q for pools; choose one of %v", o.Policy, Policies())
	}
	if o.Queries < 0 || o.Simulations < 0 {
		return fmt.Errorf("numbers of queries and simulations must not be negative")
	}
	return nil
}

func (o Options) complete() Options {
	if o.Policy == "" {
		o.Policy = PolicyExact
	}
	if o.Queries == 0 {
		o.Queries = DefaultQueries
	}
	return o
}

// Plan is a configuration with what it can be expected to serve. Rates are
// queries per second, costs money per hour.
type Plan struct {
	Pool      string         `json:"pool"`
	Policy    string         `json:"policy"`
	Status    Status         `json:"status"`
	Reason    string         `json:"reason,omitempty"` // where it is infeasible
	Cost      float64        `json:"cost"`
	Budget    float64        `json:"budget"`
	Instances map[string]int `json:"instances"` // by kind of hardware; kinds without instances are left out

	UpperBound  float64 `json:"upper_bound_rate"`     // kairos: the paper's estimate of this configuration; exact, homogeneous: the proven bound
	Goodput     float64 `json:"goodput_rate"`         // simulated, policy matching, arrivals as declared
	Poisson     float64 `json:"poisson_goodput_rate"` // the same with Poisson arrivals
	ProvenBound float64 `json:"proven_bound_rate"`    // what no way to distribute queries can exceed on this configuration

	// BestBound is a rate that no configuration within the budget can exceed,
	// however queries are distributed; of policy exact.
	BestBound float64 `json:"best_bound_rate,omitempty"`

	SLO      time.Duration `json:"slo_ms"`
	Arrivals string        `json:"arrivals"` // that goodput was simulated with

	// Coefficients is what a second of each kind is worth in seconds of the base, for
	// policy matching: prices of the bound.
	Coefficients map[string]float64 `json:"coefficients,omitempty"`

	Configurations int `json:"configurations"`     // within the budget
	Simulated      int `json:"simulated"`          // of which goodput was looked at
	FoundAt        int `json:"found_at,omitempty"` // of a search: the evaluation that found this one
}

// Gap is how much more than its goodput some configuration with some way to
// distribute queries might serve, relative to the goodput; 0 where it is not
// known.
func (p Plan) Gap() float64 {
	if p.BestBound == 0 || p.Goodput == 0 {
		return 0
	}
	return math.Max(0, p.BestBound/p.Goodput-1)
}

// Solve plans one pool. What cannot be planned has status Infeasible and a
// Reason.
func Solve(p Problem, o Options) Plan {
	o = o.complete()
	plan := Plan{Pool: p.Pool.Name, Policy: o.Policy, Budget: p.Pool.Budget, SLO: p.Pool.SLO, Arrivals: p.Pool.Arrivals}
	if plan.Arrivals == "" {
		plan.Arrivals = "even"
	}
	if p.Pool.Learns() {
		return first(plan, p)
	}
	s, err := newSolver(p, o)
	if err == nil {
		err = cmp.Or(s.run(&plan), s.err)
	}
	if err != nil {
		plan.Status, plan.Reason = Infeasible, err.Error()
	}
	return plan
}

// solver is a market with the queries to try configurations with.
type solver struct {
	*market
	options  Options
	mix      pipelines.Mix
	arrivals arrivals.Process
	load     TrialLoad
	poisson  TrialLoad
	search   TrialSearch
	capacity *capacity // by the sizes that were drawn
	err      error     // of a simulation
}

func newSolver(p Problem, o Options) (*solver, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	m, err := newMarket(p)
	if err != nil {
		return nil, err
	}
	how, err := parseArrivals(p.Pool.Arrivals)
	if err != nil {
		return nil, err
	}
	return &solver{market: m, options: o, mix: p.Pool.Mix(), arrivals: how, search: DefaultTrialSearch()}, nil
}

// stopped reports that the search must end with what it has.
func (s *solver) stopped() bool { return s.options.Stop != nil && s.options.Stop() }

// draw draws the queries: so many that the pool serves them for a long time
// compared with one objective.
func (s *solver) draw(rate float64) {
	n := max(float64(s.options.Queries), minSpans*rate*s.slo.Seconds())
	count := int(min(n, maxQueries))
	s.load = Draw(s.mix, count, s.arrivals, s.options.Seed)
	s.poisson = Draw(s.mix, count, arrivals.Process{Kind: pipelines.ArrivalsPoisson}, s.options.Seed)
	s.capacity = newCapacity(s.drawnShares(), s.search.Attainment, len(s.kinds))
}

// simulations is how many configurations policy exact may try, going by the
// size of one of them.
func (s *solver) simulations(like []int) int {
	if s.options.Simulations > 0 {
		return s.options.Simulations
	}
	instances := 0
	for _, n := range like {
		instances += n
	}
	return max(leastSimulations, defaultWork/(s.load.Len()*max(1, instances)))
}

func (s *solver) run(plan *Plan) error {
	all, err := s.configurations()
	if err != nil {
		return err
	}
	plan.Configurations = len(all)
	choice := s.kairosChoice(all)
	s.draw(all[0].rate)
	m := makers()[slices.Index(Policies(), s.options.Policy)] // which Check has found
	return m.run(s, plan, all, choice)
}

// describe fills in a plan for the configuration; goodput is 0 where it is
// still to be simulated.
func (s *solver) describe(plan *Plan, counts []int, goodput float64) {
	plan.Status, plan.Cost = Feasible, s.cost(counts)
	plan.Instances, plan.Coefficients = map[string]int{}, map[string]float64{}
	worth := s.worth(counts)
	for g, n := range counts {
		if n > 0 {
			plan.Instances[s.kinds[g].name], plan.Coefficients[s.kinds[g].name] = n, worth[g]
		}
	}
	plan.ProvenBound = s.bound(counts, s.load)
	if goodput == 0 {
		goodput = s.goodput(counts, s.load, 0)
	}
	plan.Goodput, plan.Poisson = goodput, goodput
	if plan.Arrivals != "poisson" {
		plan.Poisson = s.goodput(counts, s.poisson, 0)
	}
}

// Problem is one pool with the hardware that can be rented.
type Problem struct {
	Pool     pipelines.Pool
	Hardware []pipelines.Hardware
}

// check finds what is in the way of any plan; validation reports the same
// at its place in the files.
func (m *market) check(p pipelines.Pool) error {
	switch {
	case m.slo <= 0:
		return fmt.Errorf("the SLO must be above zero")
	case len(m.sizes) == 0 && len(p.Sizes) == 0 && m.base >= 0 && len(m.kinds[m.base].latency) > 0:
		return fmt.Errorf("the base %q serves no measured size within the SLO of %v", p.Base, m.slo)
	case len(m.sizes) == 0:
		return fmt.Errorf("no query size has a weight above zero: name a file of sizes with sizes = \"FILE.csv\"")
	case m.base < 0:
		return fmt.Errorf("the base %q is not among the kinds of hardware of the pool", p.Base)
	case m.kinds[m.base].price > m.budget:
		return fmt.Errorf("a budget of %g an hour does not pay for one base instance (%s, %g an hour)", m.budget, p.Base, m.kinds[m.base].price)
	}
	for _, k := range m.kinds {
		if len(k.latency) == 0 {
			return fmt.Errorf("the profile has no point on %q", k.name)
		}
	}
	if n := m.kinds[m.base].serves; n < len(m.sizes) {
		return fmt.Errorf("the base %q takes %v for a query of size %d, longer than the SLO of %v", p.Base, m.kinds[m.base].latency.At(m.sizes[n]), m.sizes[n], m.slo)
	}
	return nil
}

// Of is the service that the plan is for.
func (p Plan) Of() (kind pipelines.Kind, name string) { return pipelines.KindPool, p.Pool }

// Models are the names that requests give.
func (p Plan) Models() []string { return []string{p.Pool} }

// NoPlan reports why there is none.
func (p Plan) NoPlan() (reason string, infeasible bool) { return p.Reason, p.Status == Infeasible }

// EndedEarly reports that with more time the search may find another plan.
func (p Plan) EndedEarly() bool { return false }

// CostPerHour is what the plan costs, in money per hour.
func (p Plan) CostPerHour() float64 { return p.Cost }

// MadeBy is the policy, and the cost model where there are several.
func (p Plan) MadeBy() (policy, costModel string) { return p.Policy, "" }

// Describe draws the plan as a few lines of text.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Pool, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s pool, policy %s, cost %s an hour of %s, SLO %v\n", p.Pool, p.Status, p.Policy, quantity.Money(p.Cost), quantity.Money(p.Budget), p.SLO)
	if p.Goodput == 0 {
		fmt.Fprintf(&b, "  %s, to learn what queries take there\n", p.instances())
		return b.String()
	}
	for _, name := range slices.Sorted(maps.Keys(p.Instances)) {
		fmt.Fprintf(&b, "  %d x %s, a second worth %s of the base\n", p.Instances[name], name, quantity.Number(p.Coefficients[name]))
	}
	fmt.Fprintf(&b, "  goodput %s queries/s with %s arrivals", quantity.Number(p.Goodput), p.Arrivals)
	if p.Arrivals != "poisson" {
		fmt.Fprintf(&b, ", %s with Poisson arrivals", quantity.Number(p.Poisson))
	}
	b.WriteByte('\n')
	if slices.ContainsFunc(makers(), func(m maker) bool { return m.name == p.Policy && m.estimates }) {
		fmt.Fprintf(&b, "  the paper estimates %s\n", quantity.Number(p.UpperBound))
	}
	fmt.Fprintf(&b, "  no way to distribute queries exceeds %s here", quantity.Number(p.ProvenBound))
	if p.BestBound > 0 {
		fmt.Fprintf(&b, ", nor %s with any of %d configurations (gap %s, %d simulated)", quantity.Number(p.BestBound), p.Configurations, quantity.Percent(p.Gap()), p.Simulated)
	}
	b.WriteByte('\n')
	return b.String()
}

// instances lists how many there are of each kind, by name.
func (p Plan) instances() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.Instances)) {
		parts = append(parts, fmt.Sprintf("%d x %s", p.Instances[name], name))
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON writes the fixed field names of the contract: rates are queries per second,
// cost and budget money per hour.
func (p Plan) MarshalJSON() ([]byte, error) {
	return quantity.Marshal(p, quantity.Derived{After: "best_bound_rate", Tag: "gap,omitempty", Value: p.Gap()})
}

// UnmarshalJSON reads what MarshalJSON wrote; unknown fields are ignored.
func (p *Plan) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, p) }

// Comparison is one pool planned by several policies.
type Comparison struct {
	Pool  string `json:"pool"`
	Plans []Plan `json:"plans"`
}

// Compare plans the pool by the policies given, or by every one.
func Compare(p Problem, o Options, policies ...string) Comparison {
	if len(policies) == 0 {
		policies = compared()
	}
	c := Comparison{Pool: p.Pool.Name}
	for _, name := range policies {
		o.Policy = name
		c.Plans = append(c.Plans, Solve(p, o))
	}
	return c
}

// Best is the plan with the highest goodput; nil where none is feasible.
func (c Comparison) Best() *Plan {
	feasible := slices.DeleteFunc(slices.Clone(c.Plans), func(p Plan) bool { return p.Status == Infeasible })
	if len(feasible) == 0 {
		return nil
	}
	best := slices.MaxFunc(feasible, func(a, b Plan) int { return cmp.Compare(a.Goodput, b.Goodput) })
	return &best
}

// Describe draws the comparison as a table.
func (c Comparison) Describe() string {
	best := c.Best()
	if best == nil {
		return fmt.Sprintf("%s: infeasible: %s\n", c.Pool, c.Plans[0].Reason)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: goodput in queries/s with %s arrivals, budget %s an hour\n", c.Pool, best.Arrivals, quantity.Money(best.Budget))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  policy\tcost\tgoodput\tof best\tPoisson\tbound\tinstances")
	for _, p := range c.Plans {
		if p.Status == Infeasible {
			fmt.Fprintf(w, "  %s\tinfeasible: %s\n", p.Policy, p.Reason)
			continue
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%.3f\t%s\t%s\t%s\n", p.Policy, quantity.Money(p.Cost), quantity.Number(p.Goodput),
			p.Goodput/best.Goodput, quantity.Number(p.Poisson), quantity.Number(p.ProvenBound), p.instances())
	}
	_ = w.Flush() // writing to memory does not fail
	return b.String()
}
