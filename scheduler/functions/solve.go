package functions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// optimalityGap is the relative gap between a plan's cost and the lower bound up
// to which the plan is called optimal.
const optimalityGap = 1e-6

// Solve plans the function. An error is about input; an objective that cannot
// be met is a plan with status Infeasible and a reason.
func Solve(p Problem, o Options) (Plan, error) {
	begin := time.Duration(0)
	if o.Clock != nil {
		begin = o.Clock()
	}
	if err := o.Check(); err != nil {
		return Plan{}, err
	}
	if err := p.Check(); err != nil {
		return Plan{}, err
	}
	s := newPlanner(p)
	s.stop, s.seed = o.Stop, o.Seed
	out := s.solve(o.policy())
	if o.Clock != nil {
		out.SolveTime = o.Clock() - begin
	}
	return out, nil
}

// planner holds a problem in the form that the policies want.
type planner struct {
	problem   Problem
	apps      []app // in rising order of objectives
	catalogue *catalogue
	seed      uint64
	stop      func() bool // nil for never
	stopped   bool        // the search was ended by its caller
}

// ended reports whether the search must end; once it must, it always must.
func (s *planner) ended() bool {
	s.stopped = s.stopped || s.stop != nil && s.stop()
	return s.stopped
}

type app struct {
	name string
	slo  float64 // seconds
	rate float64
	time time.Duration // the objective as declared
}

func newPlanner(p Problem) *planner {
	s := &planner{problem: p, catalogue: newCatalogue(Offers(p))}
	for _, a := range p.Function.Applications {
		s.apps = append(s.apps, app{name: a.Name, slo: a.SLO.Seconds(), rate: a.Rate, time: a.SLO})
	}
	slices.SortStableFunc(s.apps, func(a, b app) int { return cmp.Compare(a.slo, b.slo) })
	return s
}

// cluster is a group in the making: members are places in planner.apps, in
// rising order.
type cluster struct {
	members []app
	demand  demand
	offer   *Offer // nil when nothing keeps the objectives
}

// maker is a policy by its name.
type maker struct {
	name    string
	average bool // uses CPU functions only, and takes average latencies for the longest
	groups  func(s *planner, out *Plan) []cluster
}

// makers lists the policies, the default first; pipelines.PlanPolicies lists what
// declarations may set of them.
func makers() []maker {
	return []maker{
		{PolicyExact, false, (*planner).exact},
		{PolicyHarmonyBatch, false, func(s *planner, _ *Plan) []cluster { return s.harmonyBatch() }},
		{PolicyBatch, true, func(s *planner, _ *Plan) []cluster { return s.batch() }},
		{PolicyMBS, false, func(s *planner, _ *Plan) []cluster { return s.mbs(s.searched(s.seed)) }},
		{PolicyMBSOptimal, false, func(s *planner, _ *Plan) []cluster { return s.mbs(s.cluster) }},
	}
}

func (s *planner) solve(policy string) Plan {
	by := makers()[slices.Index(Policies(), policy)] // which Check has found
	out := Plan{Function: s.problem.Function.Name, Policy: policy, Status: Feasible, Sound: true}
	out.ColdStart = time.Duration(s.problem.Function.Profile.Calls.ColdStart * float64(time.Second))
	out.Prepared = s.problem.Provider.Manage
	for _, a := range s.apps {
		out.Rate += a.rate
	}
	groups := by.groups(s, &out)
	out.CutShort = s.stopped
	for _, g := range groups {
		if g.offer == nil {
			return s.infeasible(out, by.average)
		}
		out.Groups = append(out.Groups, g.group(by.average))
	}
	out.finish()
	out.expect(s.problem)
	return out
}

// cluster provisions applications that are in order of their objectives.
func (s *planner) cluster(members []app) cluster {
	g := cluster{members: members, demand: fold(members)}
	g.offer = s.catalogue.best(g.demand)
	return g
}

func fold(members []app) demand {
	d := alone(members[0].slo, members[0].rate)
	for _, a := range members[1:] {
		d = d.join(a.slo, a.rate)
	}
	return d
}

// spending of all groups, in money per second.
func total(groups []cluster) float64 {
	sum := 0.0
	for _, g := range groups {
		sum += spending(g.offer, g.demand)
	}
	return sum
}

// group writes a cluster as result. Timeouts are as long as the objectives
// allow, by the latency that the policy plans with.
func (c cluster) group(average bool) Group {
	o := *c.offer
	g := Group{
		Offer: o, Rate: c.demand.rate,
		LatencyAvg: seconds(o.Avg), LatencyMax: secondsUp(o.Max),
	}
	latency := g.LatencyMax
	if average {
		latency = g.LatencyAvg
	}
	for _, a := range c.members {
		share := Share{Name: a.name, SLO: a.time, Rate: a.rate}
		if o.Batch > 1 {
			share.Timeout = max(0, a.time-latency)
		}
		g.Applications = append(g.Applications, share)
	}
	if o.Batch > 1 {
		g.Timeout = max(0, seconds(c.demand.timeout(latency.Seconds())))
	}
	return g
}

func seconds(x float64) time.Duration { return time.Duration(math.Round(x * float64(time.Second))) }

// roundingSlack is what the product of seconds and nanoseconds per second may
// be off, in nanoseconds.
const roundingSlack = 1e-3

func secondsUp(x float64) time.Duration {
	return time.Duration(math.Ceil(x*float64(time.Second) - roundingSlack))
}

// finish adds up.
func (p *Plan) finish() {
	sum, plain, members := 0.0, 0.0, 0
	for _, g := range p.Groups {
		sum += g.Cost * g.Rate
		plain += g.Cost * float64(len(g.Applications))
		members += len(g.Applications)
		for _, a := range g.Applications {
			p.Sound = p.Sound && a.Timeout+g.LatencyMax <= a.SLO
		}
	}
	switch {
	case p.Rate > 0:
		p.CostPerRequest = sum / p.Rate
	case members > 0: // no requests: what the next one would cost
		p.CostPerRequest = plain / float64(members)
	}
}

// infeasible names the applications whose objective nothing keeps.
func (s *planner) infeasible(out Plan, average bool) Plan {
	out.Status, out.Sound, out.Groups, out.LowerBound = Infeasible, false, nil, 0
	least := math.Inf(1)
	offers := s.catalogue
	if average {
		offers = s.batchCatalogue()
	}
	for _, frontier := range offers.frontiers {
		least = math.Min(least, frontier.steps[0].Max)
	}
	if math.IsInf(least, 1) {
		out.Reason = "the provider has no function that runs the model"
		if average {
			out.Reason = "policy " + out.Policy + " uses only CPU functions, and none runs the model"
		}
		return out
	}
	var names []string
	for _, a := range s.apps {
		if a.slo < least {
			names = append(names, fmt.Sprintf("%s with an SLO of %s", a.name, quantity.Duration(a.time)))
		}
	}
	switch {
	case s.stopped:
		out.Reason = "the search was cut short before it had a plan; allow it more time"
	case len(names) > 0:
		out.Reason = fmt.Sprintf("the fastest function takes up to %s, too long for %s; allow more time, or offer larger functions", quantity.Duration(secondsUp(least)), strings.Join(names, ", "))
	default:
		out.Reason = "the applications send too few requests to fill the profiled batches; profile a batch of one"
	}
	return out
}
