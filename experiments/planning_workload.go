package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Defaults of the suite.
const (
	DefaultSeed      = 1131
	DefaultWorkloads = 1131 // as many as the Harpagon paper evaluates with
)

// Workload is one problem of the suite and what it was drawn as.
type Workload struct {
	ID          int // from 0
	Application string
	Families    []string // of the modules' profiles, in their order
	SLOFactor   float64  // SLO over fastest path
	Problem     plan.Problem
}

// Describe names the workload in one line.
func (w Workload) Describe() string {
	return fmt.Sprintf("workload %d: %s at %.4g requests per second, SLO %.4g ms (%.2f times the fastest path), %d kinds of hardware, profiles %v",
		w.ID, w.Application, w.Problem.Pipeline.Rate, w.Problem.Pipeline.SLO.Seconds()*1000, w.SLOFactor, len(w.Problem.Hardware), w.Families)
}

// Workloads draws n workloads of the wide regime. An error means that the library is
// broken.
func Workloads(seed uint64, n int) ([]Workload, error) { return wide().Workloads(seed, n) }

// Workloads draws n workloads. An error means that the library is broken.
func (g Regime) Workloads(seed uint64, n int) ([]Workload, error) {
	doc, err := library.Document()
	if err != nil {
		return nil, err
	}
	all := make([]Workload, 0, n)
	for i := range n {
		w, err := drawWorkload(drawer{rand.New(rand.NewPCG(seed, uint64(i))), g}, doc.Pipelines[i%len(doc.Pipelines)])
		if err != nil {
			return nil, fmt.Errorf("suite: workload %d: %w", i, err)
		}
		w.ID = i
		all = append(all, w)
	}
	return all, nil
}

// WithConcurrency is the workload with profile points at concurrency 2 and 4
// besides: s engines side by side slow each other down to 1 + k·(s-1) times the
// duration, k from 0.5 to 0.95 for each module. The objective and everything
// else stay as they are.
func (w Workload) WithConcurrency(seed uint64) Workload {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, concurrencyStream+uint64(w.ID)))}
	modules := slices.Clone(w.Problem.Pipeline.Modules)
	for i := range modules {
		k := d.between(0.5, 0.95)
		points := slices.Clone(modules[i].Profile.Points)
		for _, at := range modules[i].Profile.Points {
			for _, s := range []int{2, 4} {
				more := at
				more.Concurrency = s
				more.Duration = time.Duration(math.Round(float64(at.Duration) * (1 + k*float64(s-1))))
				points = append(points, more)
			}
		}
		modules[i].Profile.Points = points
	}
	w.Problem.Pipeline.Modules = modules
	return w
}

// concurrencyStream keeps these draws apart from those of the workloads.
const concurrencyStream = 1 << 32

func drawWorkload(d drawer, app pipelines.Pipeline) (Workload, error) {
	devices := d.devices()
	batches := d.batches()
	w := Workload{Application: app.Name, SLOFactor: d.between(d.from.SLO[0], d.from.SLO[1])}
	pipe := app
	pipe.Rate = d.logarithmic(d.from.Rate[0], d.from.Rate[1])
	pipe.Modules = make([]pipelines.Module, len(app.Modules))
	for i, m := range app.Modules {
		family := d.family()
		m.ProfileFile = ""
		m.Profile = pipelines.Profile{Points: d.points(family, devices, batches)}
		pipe.Modules[i] = m
		w.Families = append(w.Families, family)
	}
	w.Problem = plan.Problem{Hardware: drawnHardware(devices), Pipeline: pipe}
	_, fastest, err := pipe.FastestPath(w.Problem.Hardware)
	if err != nil {
		return w, err
	}
	w.Problem.Pipeline.SLO = time.Duration(math.Round(float64(fastest) * w.SLOFactor))
	return w, nil
}
