package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/check"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// A pool goes through the workflow of pipelines: it is planned by another
// activity, its instances have devices to themselves, and what drifts is the mix
// of sizes. Its rate is no input of its plan: that is the best for its budget.

// planPoolTimeout bounds the search for the instances of a pool, which
// simulates the best configurations.
const planPoolTimeout = 10 * time.Minute

// PoolSpec is what a user asks for with a pool.
func PoolSpec(p pipelines.Pool, hardware []pipelines.Hardware, o pool.Options) Spec {
	return Spec{Pipeline: pool.Pipeline(p), Hardware: hardware, Pool: &p, PoolOptions: o}
}

func checkPool(s Spec) error {
	if err := s.PoolOptions.Check(); err != nil {
		return fmt.Errorf("workflows: pool %q: %w", s.Pool.Name, err)
	}
	if s.Pool.Name != s.Pipeline.Name {
		return fmt.Errorf("workflows: pool %q was sent under the name %q", s.Pool.Name, s.Pipeline.Name)
	}
	return check.Document(pipelines.Document{Hardware: s.Hardware, Pools: []pipelines.Pool{*s.Pool}}, nil)
}

// choosePool plans for the hardware that there is.
func (c *change) choosePool(ctx workflow.Context, hardware []pipelines.Hardware) error {
	var planning activities.Planning
	q := *c.Spec.Pool
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: planPoolTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
		Summary:             fmt.Sprintf("choose instances for %s an hour and queries of %.4g items on average", money(q.Budget), q.Mix().Mean()),
	})
	in := activities.PoolInput{Problem: pool.Problem{Pool: present(q, hardware), Hardware: hardware}, Options: c.Spec.PoolOptions}
	c.pool = new(pool.Plan)
	if err := workflow.ExecuteActivity(ctx, planning.PlanPool, in).Get(ctx, c.pool); err != nil {
		return err
	}
	c.plan = pool.Served(q, *c.pool)
	return nil
}

// present leaves out the kinds of which there is no device.
func present(q pipelines.Pool, hardware []pipelines.Hardware) pipelines.Pool {
	q.Hardware = slices.DeleteFunc(slices.Clone(q.Hardware), func(name string) bool {
		return !slices.ContainsFunc(hardware, func(h pipelines.Hardware) bool { return h.Name == name })
	})
	return q
}

// sizesMeasured lets the detector look at the sizes of the queries that came. The new
// plan is made from the new mix by simulation; nothing is tried on the queries
// themselves.
func (p *pipeline) sizesMeasured(m autoscale.Measures) {
	advice := p.Mix.Observe(m)
	if !advice.Replan {
		return
	}
	q := *p.Spec.Pool
	q.Sizes = feasible(q, advice.Mix)
	if q.Sizes.Total() <= 0 {
		return
	}
	p.Spec.Pool = &q
	p.ask("the sizes of queries changed: " + advice.Describe())
}

// feasible leaves out sizes that no instance could serve in time, which are
// dropped whatever the plan.
func feasible(q pipelines.Pool, mix pipelines.Mix) pipelines.Mix {
	base := q.Profile.Latency(q.Base)
	return slices.DeleteFunc(slices.Clone(mix), func(s pipelines.Size) bool { return base.At(s.Size) > q.SLO })
}

// planned is the rate that the pipeline is planned for; of a pool, the rate that
// its plan sustains.
func (p *pipeline) planned() float64 {
	if p.Spec.Pool == nil {
		return p.Spec.Pipeline.Rate
	}
	if p.Pool == nil {
		return 0
	}
	return p.Pool.Goodput
}

// restored is the spec with what serves in place of what was asked for last.
func (p *pipeline) restored(spec Spec) Spec {
	spec.Pipeline, spec.Pool = p.Serving.Pipeline, nil
	if p.Serving.Pool != nil {
		q := *p.Serving.Pool
		q.Profile = spec.Pipeline.Modules[0].Profile
		spec.Pool = &q
	}
	return spec
}

// DescribePlan writes the plan that serves; empty where none does.
func (s Status) DescribePlan() string {
	if s.Plan == nil {
		return ""
	}
	return describePlan(s.Plan, s.Pool)
}

func describePlan(p *plan.Plan, of *pool.Plan) string {
	if of != nil {
		return of.Describe()
	}
	return p.Describe()
}
