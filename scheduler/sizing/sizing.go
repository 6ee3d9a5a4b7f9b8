// Package sizing plans pipelines for the arrivals that they declare.
//
// The policies of package plan size for evenly paced requests. Where a pipeline
// declares random arrivals and an attainment, the plan for even requests is
// simulated with the dispatcher that will serve it, and capacity is added until the
// simulation attains the target with 99 % confidence: plans are made for more than the rate
// that comes, and with budgets that leave time to wait for a device. The cheapest that
// attains the target is the result, with its expected attainment.
//
// It also computes what the headroom of a plan costs: the difference to a plan without.
package sizing

import (
	"errors"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Options are those of a plan, and the dispatch policies that a program brings.
type Options struct {
	plan.Options
	Dispatch factory.Policies
}

// Solve plans one pipeline for the arrivals that it declares. Even ones are
// policies.Solve's. For others the plan is simulated, with the dispatcher that will
// serve it, and reports what share of requests it is expected to answer in time;
// capacity is added until the attainment is reached that the pipeline declares
// (see size). Where the plan keeps headroom it reports what that costs:
// the difference to a plan without, both for even arrivals. On hardware that is
// taken back it has the machines to spare that its attainment needs.
func Solve(p plan.Problem, o Options) plan.Plan { return addSpares(p, o, solve(p, o)) }

// solve plans without regard to interruptions.
func solve(p plan.Problem, o Options) plan.Plan {
	if !simulated(&p.Pipeline) {
		out := policies.Solve(p, o.Options)
		margin(p, o, &out, out.Cost)
		return out
	}
	start := watch(o)
	out, err := size(p, o)
	if err != nil {
		out = plan.Plan{Pipeline: out.Pipeline, Policy: out.Policy, CostModel: out.CostModel, Status: plan.Infeasible, Reason: err.Error(), SLO: out.SLO, CutShort: out.CutShort}
		var why *plan.InfeasibleError
		if errors.As(err, &why) {
			out.Reason, out.CutShort = why.Reason, out.CutShort || why.Unfinished
		}
	}
	out.SolveTime = watch(o) - start
	return out
}

// SolveAll plans several pipelines: those with even arrivals together, as
// policies.SolveAll does, and the others one by one. Where the plans together do not
// bear their interruptions, they are made one by one with machines to spare, or
// together on devices that stay, whichever costs less.
func SolveAll(problems []plan.Problem, o Options) []plan.Plan {
	plans := solveAll(problems, o)
	if bearAll(problems, plans) {
		return plans
	}
	alone, stay := make([]plan.Plan, len(problems)), make([]plan.Problem, len(problems))
	for i, p := range problems {
		alone[i], stay[i] = addSpares(p, o, plans[i]), lasting(p, interrupted(&p))
	}
	if together := solveAll(stay, o); cheaper(together, alone) {
		return together
	}
	return alone
}

// cheaper reports whether one way to plan all serves more of them, or as many for less.
func cheaper(a, b []plan.Plan) bool {
	sum := func(plans []plan.Plan) (served int, cost float64) {
		for _, p := range plans {
			if p.Status != plan.Infeasible {
				served, cost = served+1, cost+p.Cost
			}
		}
		return served, cost
	}
	n, x := sum(a)
	m, y := sum(b)
	return n > m || n == m && x < y
}

func solveAll(problems []plan.Problem, o Options) []plan.Plan {
	plans := make([]plan.Plan, len(problems))
	var even []plan.Problem
	var index []int
	for i, p := range problems {
		if simulated(&p.Pipeline) {
			plans[i] = solve(p, o)
			continue
		}
		even, index = append(even, p), append(index, i)
	}
	together := policies.SolveAll(even, o.Options)
	margins(even, o, together)
	for k := range together {
		phases(even[k], o, &together[k])
	}
	for k, p := range together {
		plans[index[k]] = p
	}
	return plans
}

// size is policies.Solve for the arrivals that the pipeline declares. Where those are not even
// and an attainment is declared, it looks for the cheapest plan that attains it with 99 %
// confidence: plans are made for more than the rate that comes, as an estimate divides it among
// the modules and then for each as little as will do, and for budgets cut short to leave time to
// wait for a device; then devices are added to plans for even arrivals; and each is simulated. A
// plan that is found keeps the promise of its kind for even arrivals, too.
func size(p plan.Problem, o Options) (plan.Plan, error) {
	p.Held = nil // who else runs there would not be simulated
	base := policies.Solve(p, o.Options)
	margin(p, o, &base, base.Cost)
	if base.Status == plan.Infeasible || p.Pipeline.Rate == 0 {
		return base, nil
	}
	s, err := newSizer(p, o, base)
	if err != nil {
		return base, err
	}
	out, err := s.solve()
	if err != nil {
		return base, err
	}
	return out, nil
}

// simulated reports whether only a simulation shows what a plan attains: requests come at
// random, or divide into items that come at once.
func simulated(p *pipelines.Pipeline) bool {
	_, err := arrivals.Declared(p)
	return err == nil && !p.ProvesEvery()
}

// phases writes what a plan for streams that send when they like would cost, by itself, if their
// phases were chosen.
func phases(p plan.Problem, o Options, out *plan.Plan) {
	var changes bool
	if p.Pipeline, changes = p.Pipeline.ChooseStreams(); !changes || out.Status == plan.Infeasible {
		return
	}
	if chosen := policies.Solve(p, o.Options); chosen.Status != plan.Infeasible {
		out.ChosenPhasesCost = &chosen.Cost
	}
}

// margin writes what the headroom of a plan costs: cost is what the plan for even
// arrivals costs.
func margin(p plan.Problem, o Options, out *plan.Plan, cost float64) {
	if !out.HasMargin() || out.Status == plan.Infeasible {
		return
	}
	if without := policies.Solve(p.Relaxed(), o.Options); without.Status != plan.Infeasible {
		more := extraCost(cost, without.Cost)
		out.HeadroomCost = &more
	}
}

// extraCost is by how much one cost is above another, beyond rounding.
func extraCost(cost, than float64) float64 {
	const rounding = 1e-9
	if cost <= than*(1+rounding) {
		return 0
	}
	return cost - than
}

// margins writes what the headroom of plans that were made together costs.
func margins(problems []plan.Problem, o Options, plans []plan.Plan) {
	relaxed := make([]plan.Problem, len(problems))
	kept := false
	for i, p := range problems {
		relaxed[i], kept = p.Relaxed(), kept || plans[i].HasMargin()
	}
	if !kept {
		return
	}
	for i, without := range policies.SolveAll(relaxed, o.Options) {
		if plans[i].HasMargin() && plans[i].Status != plan.Infeasible && without.Status != plan.Infeasible {
			more := extraCost(plans[i].Cost, without.Cost)
			plans[i].HeadroomCost = &more
		}
	}
}
