package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// BenchmarkCluster plays one module on a cluster of 8 devices near its goodput; an
// operation is a request. "driver" has a policy that decides next to nothing,
// so that what is left is the simulator.
func BenchmarkCluster(b *testing.B) {
	for _, name := range append([]string{"driver"}, shared.Names()...) {
		b.Run(name, func(b *testing.B) {
			o := Options{Dispatch: name}
			if name == "driver" {
				o.Policy = func(shared.Options) (dispatch.Policy, error) { return &least{size: 16}, nil }
			}
			benchmark(b, o)
		})
	}
}

func benchmark(b *testing.B, o Options) {
	const rate = 4500
	o.Duration = time.Duration(float64(b.N) / rate * float64(time.Second))
	load := Load{Pipeline: resnet50(), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}
	b.ReportAllocs()
	b.ResetTimer()
	r, err := OnCluster([]Load{load}, gpus(8), o)
	require.NoError(b, err)
	b.ReportMetric(float64(r.Pipelines[0].Requests)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(r.Events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkPlans plays a pipeline with a fan-out within a fan-out and two joins
// on a plan with machines to spare; an operation is a request of 12 items.
func BenchmarkPlans(b *testing.B) {
	const rate = 100
	p := pipelines.Pipeline{Name: "p", SLO: time.Second, Modules: []pipelines.Module{
		step("a", 2*ms, 1), scatter(step("b", ms, 4, "a"), 2), scatter(step("c", ms, 4, "b"), 3),
		step("d", ms, 4, "b", "c"), step("e", 2*ms, 1, "a", "d"),
	}}
	o := Options{Duration: time.Duration(float64(b.N) / rate * float64(time.Second)), Eager: true}
	b.ReportAllocs()
	b.ResetTimer()
	r, err := OnPlans([]Load{{Pipeline: p, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}}, []plan.Plan{onOwn(p, 4)}, o)
	require.NoError(b, err)
	b.ReportMetric(float64(r.Events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(r.Pipelines[0].Completed)/float64(r.Pipelines[0].Requests), "attained")
}

// BenchmarkBusyPlan plays one module near what its eight devices can do, dispatched by tc as plans
// for random arrivals are, with admission control and without; an operation is a request.
func BenchmarkBusyPlan(b *testing.B) {
	for name, admission := range map[string]bool{"admission": true, "alone": false} {
		b.Run(name, func(b *testing.B) {
			const rate, batch = 4300, 8
			p := resnet50()
			p.Rate, p.Arrivals = rate, pipelines.ArrivalsPoisson
			out := onOwn(p, 8)
			took := p.Modules[0].Profile.Points[batch-1].Duration
			g := &out.Modules[0].Groups[0]
			g.Batch, g.Duration, g.Period, g.Window, out.Modules[0].Budget = batch, took, took/8, p.SLO-took, p.SLO
			o := Options{Duration: time.Duration(float64(b.N) / rate * float64(time.Second)), Eager: true, Admission: admission}
			b.ReportAllocs()
			b.ResetTimer()
			r, err := OnPlans([]Load{{Pipeline: p, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}}, []plan.Plan{out}, o)
			require.NoError(b, err)
			b.ReportMetric(float64(r.Pipelines[0].Requests)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(r.Pipelines[0].Attainment, "attained")
		})
	}
}

// least is the least policy: batches of one size, on whichever executor is
// free, and what comes too late is dropped when a batch is cut.
type least struct {
	size  int
	queue []dispatch.Request
	batch []dispatch.RequestID
	free  []dispatch.ExecutorID
}

func (p *least) Name() string     { return "least" }
func (p *least) Len() int         { return len(p.queue) }
func (p *least) Describe() string { return "" }

func (p *least) Step(now Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.batch = p.batch[:0]
	switch ev.Kind {
	case dispatch.Arrive:
		p.queue = append(p.queue, ev.Request)
		if len(p.queue) == 1 {
			out = append(out, dispatch.Action{Act: dispatch.SetTimer, At: ev.Request.Deadline})
		}
	case dispatch.ExecutorUp, dispatch.ExecutorFree:
		p.free = append(p.free, ev.Executor)
	}
	if ev.Kind == dispatch.Timer || len(p.queue) > 16*p.size {
		for _, r := range p.queue {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
		}
		p.queue = p.queue[:0]
	}
	if len(p.queue) >= p.size && len(p.free) > 0 {
		for _, r := range p.queue[:p.size] {
			p.batch = append(p.batch, r.ID)
		}
		p.queue = p.queue[:copy(p.queue, p.queue[p.size:])]
		last := len(p.free) - 1
		out = append(out, dispatch.Action{Act: dispatch.Start, Executor: p.free[last], Batch: p.batch})
		p.free = p.free[:last]
	}
	return out
}
