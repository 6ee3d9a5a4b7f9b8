package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// simulatingFigures are those about plans that are played request by request.
func simulatingFigures() []Figure {
	return []Figure{
		{ID: "simulating/promises", Title: "Plans that are proven for every request, played request by request", Seconds: 10000,
			Layout: Layout{Down: []string{"cost_model", System}, Across: []string{Metric}},
			Run: func(ctx context.Context, e *Env) (Result, error) {
				if e.Quick {
					return promises(ctx, e, 2)
				}
				return promises(ctx, e, DefaultWorkloads)
			}},
		{ID: "simulating/early", Title: "Early starts beside windows that are kept; latencies as shares of the SLO", Seconds: 60,
			Layout: Layout{Down: []string{"arrivals", "load"}, Across: []string{Metric, System}},
			Run: func(ctx context.Context, e *Env) (Result, error) {
				if e.Quick {
					return early(ctx, e, 2)
				}
				return early(ctx, e, 40)
			}},
	}
}

// withoutFanout is the problem with every fan-out set to one.
func withoutFanout(p plan.Problem) plan.Problem {
	p.Pipeline.Modules = slices.Clone(p.Pipeline.Modules)
	for i := range p.Pipeline.Modules {
		p.Pipeline.Modules[i].Scatter, p.Pipeline.Modules[i].Fanout = false, 1
	}
	return p
}

// promise counts the plans of a policy that are proven for every request of an
// even stream, and those that kept it.
type promise struct {
	model, policy string
	proven, kept  int
}

// promises plays n workloads of the suite, each as declared and with every
// fan-out set to one, under every cost model and by every policy, with early
// starts and without. Exhaustive searches run on as many workloads as in the
// tables of planning where all workloads are played, and on none
// otherwise.
func promises(ctx context.Context, e *Env, n int) (Result, error) {
	var out Result
	workloads, err := Workloads(DefaultSeed, n)
	if err != nil {
		return out, err
	}
	var all []promise
	var broken []error
	played := make([][]promise, len(workloads))
	failed := make([]error, len(workloads))
	err = e.Each(ctx, "Plans played request by request", len(workloads), func(i int) error {
		played[i], failed[i] = play(&workloads[i], e.Clock, n >= DefaultWorkloads)
		return nil
	})
	for i, list := range played {
		broken = append(broken, failed[i])
		for _, one := range list {
			k := slices.IndexFunc(all, func(p promise) bool { return p.model == one.model && p.policy == one.policy })
			if k < 0 {
				k = len(all)
				all = append(all, promise{model: one.model, policy: one.policy})
			}
			all[k].proven, all[k].kept = all[k].proven+one.proven, all[k].kept+one.kept
		}
	}
	for _, p := range all {
		at := Set("cost_model", p.model)
		out.Add(at, p.policy, "proven", "", float64(p.proven))
		out.Add(at, p.policy, "kept", "", float64(p.kept))
	}
	if why := errors.Join(broken...); why != nil {
		out.Note("DEFECT: %v", why)
	}
	return out, err
}

// play plans one workload in every way and plays the plans. The error names
// those that did not keep their promise.
func play(w *Workload, clock func() time.Duration, slow bool) (list []promise, broken error) {
	for _, p := range []plan.Problem{w.Problem, withoutFanout(w.Problem)} {
		for _, model := range plan.CostModels() {
			for _, v := range PlanningPolicies(model) {
				if v.Every > 1 && (!slow || w.ID%v.Every != 0) {
					continue
				}
				o := v.Options
				o.Clock, o.TimeLimit = clock, 10*time.Second
				got := policies.Solve(p, o)
				if got.Status == plan.Infeasible || !got.Sound || got.Proof != plan.EveryRequest {
					continue
				}
				one := promise{model: model, policy: v.Name, proven: 1, kept: 1}
				for _, eager := range []bool{false, true} {
					if err := keepsPromise([]pipelines.Pipeline{p.Pipeline}, []plan.Plan{got}, promisePlay{Eager: eager, Admission: eager}); err != nil {
						one.kept, broken = 0, errors.Join(broken, errors.New(w.Describe()+" by "+v.Name+", "+model+": "+err.Error()))
					}
				}
				list = append(list, one)
			}
		}
	}
	return list, broken
}

// Ways to start batches that early compares.
const (
	windowsKept = "windows kept"
	earlyStarts = "early starts"
)

// early plays n workloads without fan-out, planned by exact on whole and on
// shared devices, with early starts and without, and averages.
func early(ctx context.Context, e *Env, n int) (Result, error) {
	var out Result
	workloads, err := Workloads(DefaultSeed, n)
	if err != nil {
		return out, err
	}
	models := []string{plan.CostWhole, plan.CostShared}
	loads, plans := make([]simulate.Load, n*len(models)), make([]plan.Plan, n*len(models))
	err = e.Each(ctx, "Planning", len(plans), func(i int) error {
		p := withoutFanout(workloads[i/len(models)].Problem)
		loads[i], plans[i] = simulate.Load{Pipeline: p.Pipeline}, policies.Solve(p, plan.Options{CostModel: models[i%len(models)]})
		return nil
	})
	if err != nil {
		return out, err
	}
	type run struct {
		kind  string
		part  float64
		eager bool
		means attainedMeans
	}
	var runs []run
	for _, kind := range []string{pipelines.ArrivalsEven, pipelines.ArrivalsPoisson} {
		for _, part := range []float64{0.5, 0.8, 1} {
			runs = append(runs, run{kind: kind, part: part}, run{kind: kind, part: part, eager: true})
		}
	}
	err = e.Each(ctx, "Early starts", len(runs), func(i int) (err error) {
		r := &runs[i]
		r.means, err = averageAttained(loads, plans, r.kind, r.part, r.eager)
		return err
	})
	for _, r := range runs {
		at, system := Set("arrivals", r.kind, "load", r.part), windowsKept
		if r.eager {
			system = earlyStarts
		}
		out.Add(at, system, "attained", "%", 100*r.means.attained)
		out.Add(at, system, "p50", "", r.means.p50)
		out.Add(at, system, "p99", "", r.means.p99)
	}
	return out, err
}

// attainedMeans are averages over plans; latencies are shares of the SLO.
type attainedMeans struct{ attained, p50, p99 float64 }

// averageAttained plays 2000 requests of every load at a part of its rate.
func averageAttained(loads []simulate.Load, plans []plan.Plan, kind string, part float64, eager bool) (m attainedMeans, err error) {
	n := float64(len(loads))
	for i, l := range loads {
		l.Arrivals, l.Rate = arrivals.Process{Kind: kind}, part*l.Pipeline.Rate
		r, err := simulate.OnPlans([]simulate.Load{l}, plans[i:i+1], simulate.Options{Eager: eager, Duration: time.Duration(2000 / l.Pipeline.Rate * float64(time.Second))})
		if err != nil {
			return m, err
		}
		one := r.Pipelines[0]
		m.attained += float64(one.Completed) / float64(one.Requests) / n
		m.p50 += float64(one.Latency.P50) / float64(l.Pipeline.SLO) / n
		m.p99 += float64(one.Latency.P99) / float64(l.Pipeline.SLO) / n
	}
	return m, nil
}

// promisePlay states how keepsPromise looks at plans.
type promisePlay struct {
	Requests int // of each pipeline at the least; 2000 when 0

	// Spare is how many gaps between two requests of a module a request may be
	// late. Plans need none where requests are even.
	Spare int

	// Eager lets batches start early, and Admission refuses what could not be in time,
	// as gateways do.
	Eager, Admission bool

	// Arrivals are how the requests of each pipeline come, and Duration for how long;
	// evenly at their rates, and for Requests of each, where there are none.
	Arrivals []arrivals.Process
	Duration time.Duration

	// Phases are when the first request of each pipeline comes; all at once where there are none.
	Phases []time.Duration
}

// defaultRequests is how many requests keepsPromise plays by default.
const defaultRequests = 2000

// keepsPromise plays requests against plans that were made together, under policy tc, and
// returns the first broken promise: nil means that every request of every pipeline was
// answered within its SLO. Plans that are not sound promise nothing and may fail.
func keepsPromise(all []pipelines.Pipeline, plans []plan.Plan, k promisePlay) error {
	if k.Requests == 0 {
		k.Requests = defaultRequests
	}
	var loads []simulate.Load
	duration := k.Duration
	for i, p := range all {
		if p.Rate <= 0 {
			loads = append(loads, simulate.Load{Pipeline: p})
			continue
		}
		if k.Duration == 0 {
			duration = max(duration, time.Duration(float64(k.Requests)/p.Rate*float64(time.Second)))
		}
		p.SLO += k.spare(&p)
		l := simulate.Load{Pipeline: p, Rate: p.Rate}
		if k.Arrivals != nil {
			l.Arrivals, l.Rate = k.Arrivals[i], 0 // as recorded
		}
		if k.Phases != nil {
			l.Arrivals, l.Rate = arrivals.Process{Kind: arrivals.Replay, Stamps: evenFrom(k.Phases[i], p.Rate, duration)}, 0
		}
		loads = append(loads, l)
	}
	r, err := simulate.OnPlans(loads, plans, simulate.Options{Dispatch: "tc", Duration: max(duration, 1), Eager: k.Eager, Admission: k.Admission, MaxQueue: maxKept})
	if err != nil {
		return err
	}
	for _, p := range r.Pipelines {
		if p.Completed == p.Requests {
			continue
		}
		return fmt.Errorf("simulate: pipeline %q does not keep its SLO: of %d requests %d were late and %d were dropped or refused; the longest took %s of %s%s",
			p.Pipeline, p.Requests, p.Late, p.Dropped+p.Refused, quantity.Duration(p.Latency.Max), quantity.Duration(p.SLO), furthestBehind(p))
	}
	return nil
}

// evenFrom are requests that come evenly from an instant on.
func evenFrom(phase time.Duration, rate float64, duration time.Duration) (list []time.Duration) {
	for i := 0; len(list) == 0 || list[i-1] < duration; i++ {
		list = append(list, phase+time.Duration(math.Ceil(float64(i)/rate*float64(time.Second))))
	}
	return list
}

// maxKept bounds queues where keepsPromise looks: a queue that is bounded is not what
// is in question.
const maxKept = 1 << 20

// spare is the time by which a request may be late.
func (k promisePlay) spare(p *pipelines.Pipeline) time.Duration {
	least := p.Rate
	for _, rate := range p.Rates() {
		least = min(least, rate)
	}
	if least <= 0 {
		return 0
	}
	return time.Duration(float64(k.Spare) / least * float64(time.Second))
}

// furthestBehind names the module that left furthest behind its budget.
func furthestBehind(p simulate.PipelineResult) string {
	worst := -1
	for i, m := range p.Modules {
		if m.Behind > 0 && (worst < 0 || m.Behind > p.Modules[worst].Behind) {
			worst = i
		}
	}
	if worst < 0 {
		return ""
	}
	m := p.Modules[worst]
	return fmt.Sprintf("; module %s was up to %s behind its budget of %s", m.Module, quantity.Duration(m.Behind), quantity.Duration(m.Budget))
}
