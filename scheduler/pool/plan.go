package pool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

// The policies.
const (
	PolicyKairos      = "kairos"
	PolicyExact       = "exact"
	PolicyHomogeneous = "homogeneous"

	// Searches that evaluate configurations by simulation; see searches.go.
	PolicyKairosPlus = "kairos+"
	PolicyRandom     = "random"
	PolicyGenetic    = "genetic"
	PolicyRibbon     = "ribbon"
)

// Policies lists the policies, the default first.
func Policies() []string {
	return []string{PolicyExact, PolicyKairos, PolicyHomogeneous, PolicyKairosPlus, PolicyRandom, PolicyGenetic, PolicyRibbon}
}

// compared lists those that comparisons show unless they are told others: searches for
// what exact finds take long.
func compared() []string { return []string{PolicyExact, PolicyKairos, PolicyHomogeneous} }

// Status says how good a plan is known to be.
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

// Bounds of how many queries a simulation plays, whatever Options say.
const (
	minSpans   = 50 // objectives that one simulation lasts, at least
	maxQueries = 500_000
)

// Options say how to plan. The zero value is policy exact with its defaults.
type Options struct {
	Policy      string
	Queries     int    // that one simulation plays; 0 means DefaultQueries
	Simulations int    // configurations that policy exact or a search may try; 0 means as many as take about a minute, and all of a search
	Seed        uint64 // of the queries

	// Stop is asked before each configuration that is tried whether to end with the
	// best one so far; nil is never.
	Stop func() bool
}

// Check says what is wrong with the options.
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
	Pool      string
	Policy    string
	Status    Status
	Reason    string // where it is infeasible
	SLO       time.Duration
	Arrivals  string // that goodput was simulated with
	Budget    float64
	Cost      float64
	Instances map[string]int // by kind of hardware; kinds without instances are left out

	// Coefficients say what a second of each kind is worth against one of the
	// base, for policy matching: prices of the bound.
	Coefficients map[string]float64

	UpperBound  float64 // kairos: the paper's estimate of this configuration; exact, homogeneous: the proven bound
	ProvenBound float64 // what no way to distribute queries can exceed on this configuration
	Goodput     float64 // simulated, policy matching, arrivals as declared
	Poisson     float64 // the same with Poisson arrivals

	// BestBound is a rate that no configuration within the budget can exceed,
	// however queries are distributed; of policy exact.
	BestBound      float64
	Configurations int // within the budget
	Simulated      int // of which goodput was looked at
	FoundAt        int // of a search: the evaluation that found this one
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

// stopped says that the search must end with what it has.
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
	switch s.options.Policy {
	case PolicyKairos:
		return s.kairos(plan, choice)
	case PolicyHomogeneous:
		return s.homogeneous(plan)
	case PolicyKairosPlus, PolicyRandom, PolicyGenetic, PolicyRibbon:
		return s.searchFor(plan, all)
	}
	return s.exact(plan, all, choice)
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
