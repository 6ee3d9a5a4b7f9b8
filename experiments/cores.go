package experiments

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Requests of a run: enough for a steady state.
const (
	fully        = 4_000_000
	coresQuickly = 20_000
)

// coresFigures is the one about schedulers on several cores.
func coresFigures() []Figure {
	return []Figure{{
		ID: "symphony/cores", Title: "Million requests per second of processor time, by one policy and by the dispatcher on one and two cores", Seconds: 120,
		Layout: Layout{Down: []string{"models", "executors"}, Across: []string{System}}, Run: runCores,
	}}
}

// runCores takes one setting after the other: two at a time would share the cores
// that one of them is to have for itself.
func runCores(ctx context.Context, e *Env) (Result, error) {
	var out Result
	requests := fully
	if e.Quick {
		requests = coresQuickly
	}
	for _, policy := range []string{"adaptive", "deferred", tc} {
		for _, models := range Part(e, []int{1, 8, 64, 1024}, 2) {
			for _, executors := range Part(e, []int{1, 64, 1000, 4096}, 2) {
				if ctx.Err() != nil {
					return out, ctx.Err()
				}
				s := CoresSetting{Policy: policy, Models: models, Executors: executors, Requests: requests}
				at := Set("models", models, "executors", executors)
				if policy != tc {
					r, err := Step(s)
					if err != nil {
						return out, err
					}
					out.Add(at, policy, "requests", "million/s", r.CoreRate()/1e6)
				}
				// One model has one worker, and in tc executors of its own; in small pools
				// workers mostly wait for their clocks, since few requests are under way.
				if executors < max(1000, models) || models == 1 {
					continue
				}
				for _, s.Workers = range []int{1, 2} {
					r, err := Run(s)
					if err != nil {
						return out, err
					}
					out.Add(at, fmt.Sprintf("%s, %s", policy, quantity.Count(s.Workers, "worker")), "requests", "million/s", r.CoreRate()/1e6)
				}
			}
		}
		if e.Progress != nil {
			e.Progress("Requests per second, "+policy, 1, 1)
		}
	}
	return out, nil
}

// CoresSetting is a pool and its load. All models have the slope and intercept of a
// ResNet50 on a GTX 1080Ti (Symphony, table 4), a largest batch of 128 and an SLO of 100
// ms, and get the same rate.
type CoresSetting struct {
	Policy    string // tc, or one for shared executors such as adaptive
	Models    int
	Executors int
	Workers   int     // goroutines that share the models and the executors
	Requests  int     // to be measured
	Share     float64 // of the most that the executors can do; 0 means 0.9
}

const (
	slo         = 100 * time.Millisecond
	largest     = 128
	each        = 1053 * time.Microsecond
	fixed       = 5072 * time.Microsecond
	cut         = 32                    // batch of policy tc, and
	coresWindow = 50 * time.Millisecond // how long one may take to be collected
	warmUp      = 4                     // SLOs before the measurement, until queues and buffers have their size
)

const (
	coresHardware = "gpu"
	module        = "m"
	tc            = "tc"
)

// rate is the arrivals per second that load the executors by Share. A batch is
// taken to be as large as two executors taking turns allow.
func (s CoresSetting) rate() float64 {
	share := s.Share
	if share == 0 {
		share = 0.9
	}
	return share * float64(s.Executors) * 750
}

func (s CoresSetting) pool() shared.Options {
	var o shared.Options
	for range s.Models {
		o.Models = append(o.Models, shared.Model{Durations: shared.Linear(each, fixed, largest), SLO: slo})
	}
	return o
}

// part is what one of the workers has.
func (s CoresSetting) part(i int) CoresSetting {
	of := s
	of.Models, of.Executors = coresShare(s.Models, i, s.Workers), coresShare(s.Executors, i, s.Workers)
	return of
}

func coresShare(all, i, among int) int { return all*(i+1)/among - all*i/among }

// deployments are the services of a worker: for policies of shared executors a part of a
// cluster, for tc a pipeline for every model, with executors of its own.
func (s CoresSetting) deployments(worker int) (all []placement.Deployment) {
	if s.Policy != tc {
		of := placement.Deployment{Generation: 1, Cluster: &placement.Cluster{Dispatch: s.Policy, Hardware: coresHardware}}
		of.Pipeline.Name = fmt.Sprintf("part-%d", worker)
		part := placement.Part{Name: of.Pipeline.Name, Devices: s.Executors}
		for i := range s.Models {
			part.Members = append(part.Members, placement.Member{Pipeline: s.pipeline(worker, i), Budgets: map[string]time.Duration{module: slo}})
		}
		of.Cluster.Parts = []placement.Part{part}
		of.Slots = slots(of.Pipeline.Name, placement.AllModules, s.Executors, largest)
		return append(all, of)
	}
	for i := range s.Models {
		of, n := placement.Deployment{Generation: 1, Pipeline: s.pipeline(worker, i)}, max(1, coresShare(s.Executors, i, s.Models))
		of.Slots = slots(of.Pipeline.Name, module, n, cut)
		of.Plan.Modules = []plan.Module{{Name: module, Rate: of.Pipeline.Rate, Budget: slo, Groups: []plan.Group{{
			Hardware: coresHardware, Batch: cut, Concurrency: 1, Duration: of.Slots[0].Duration, Machines: float64(n), Rate: of.Pipeline.Rate, Window: coresWindow,
		}}}}
		all = append(all, of)
	}
	return all
}

func (s CoresSetting) pipeline(worker, i int) pipelines.Pipeline {
	p := pipelines.Pipeline{
		Name: fmt.Sprintf("p%d-%d", worker, i), SLO: slo, Rate: s.rate() / float64(s.Models), Dispatch: s.Policy,
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
	}
	m := pipelines.Module{Name: module, Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}
	for batch, took := range shared.Linear(each, fixed, largest) {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: coresHardware, Batch: batch + 1, Concurrency: 1, Duration: took})
	}
	p.Modules = []pipelines.Module{m}
	p.Outputs = []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: module, Port: "y"}}}
	return p
}

// slots are executors with devices of their own.
func slots(service, of string, n, batch int) (all []placement.Slot) {
	for i := range n {
		all = append(all, placement.Slot{
			Executor: fmt.Sprintf("%s/%d", service, i), Pipeline: service, Module: of, Hardware: coresHardware,
			Host: "h", Device: fmt.Sprintf("%s-%d", service, i), Batch: batch, Share: 1, Model: "d",
			Window: coresWindow, Duration: shared.Linear(each, fixed, batch)[batch-1],
		})
	}
	return all
}

func (s CoresSetting) check() error {
	if s.Models < 1 || s.Executors < 1 || s.Requests < 1 || s.Share < 0 {
		return fmt.Errorf("give at least one model, one executor and one request, not %d, %d and %d", s.Models, s.Executors, s.Requests)
	}
	return nil
}

// early is how many requests come before the measurement.
func (s CoresSetting) early() int { return int(s.rate()*slo.Seconds()*warmUp) + 1000 }

// CoresResult is what a run measured.
type CoresResult struct {
	Requests    int           `json:"requests"`
	Served      int           `json:"served"`
	Batches     int           `json:"batches"`
	Wall        time.Duration `json:"wall_ns"`
	CPU         time.Duration `json:"cpu_ns"`    // of the process; 0 where unknown
	Waited      time.Duration `json:"waited_ns"` // of goroutines for each other's locks
	Allocations uint64        `json:"allocations"`
}

// Rate is the requests per second.
func (r CoresResult) Rate() float64 { return float64(r.Requests) / r.Wall.Seconds() }

// CoreRate is the requests per second of processor time.
func (r CoresResult) CoreRate() float64 { return float64(r.Requests) / r.CPU.Seconds() }

// Cores is how many cores were at work.
func (r CoresResult) Cores() float64 { return r.CPU.Seconds() / r.Wall.Seconds() }

// coresArrivals are Poisson, drawn beforehand and repeated.
type coresArrivals struct {
	gaps    []dispatch.Time
	classes []int32
	i       int
	now     dispatch.Time
}

const prepared = 1 << 16

func newArrivals(s CoresSetting) *coresArrivals {
	rng := rand.New(rand.NewPCG(1, 2))
	a := &coresArrivals{gaps: make([]dispatch.Time, prepared), classes: make([]int32, prepared)}
	for i := range prepared {
		a.gaps[i] = dispatch.Time(rng.ExpFloat64() / s.rate() * 1e9)
		a.classes[i] = int32(rng.IntN(s.Models))
	}
	return a
}

func (a *coresArrivals) next() dispatch.Request {
	k := a.i & (prepared - 1)
	a.i++
	a.now += a.gaps[k]
	return dispatch.Request{ID: dispatch.RequestID(a.i), Class: a.classes[k], Arrival: a.now, Deadline: a.now + slo}
}

// measureRun runs f and reports what it took.
func measureRun(f func()) CoresResult {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, waits, begin := osutil.ProcessorTime(), waited(), time.Now()
	f()
	r := CoresResult{Wall: time.Since(begin), CPU: osutil.ProcessorTime() - cpu, Waited: waited() - waits}
	runtime.ReadMemStats(&after)
	r.Allocations = after.Mallocs - before.Mallocs
	return r
}

// waited is for how long goroutines have waited for locks.
func waited() time.Duration {
	all := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(all)
	return time.Duration(all[0].Value.Float64() * float64(time.Second))
}
