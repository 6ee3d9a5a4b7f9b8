// Package overload measures what becomes of requests as more come than a plan was
// made for: goodput over offered load, on the workloads of package suite, with the
// dispatchers and the admission control that serve.
package overload

import (
	"time"

	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Defaults of what is measured.
const (
	DefaultNoise = 0.3
	workloads    = 20   // of the suite
	requests     = 1500 // of a run, at the planned rate and below; more above it
)

// Loads are the offered loads that are measured, in planned rates.
func Loads() []float64 { return []float64{0.3, 0.6, 0.9, 1, 1.2, 2, 3, 10} }

// Setting is a way to serve.
type Setting struct {
	CostModel string
	Arrivals  string // declared and offered: even or poisson
	Dispatch  string
	Admission bool
	Noise     float64 // coefficient of variation of durations
}

// Point of a curve: the means over the workloads that have a plan.
type Point struct {
	Load       float64 // offered, in planned rates
	Attainment float64
	Goodput    float64 // in planned rates
	OfPeak     float64 // goodput over the most that the workload reached at any load
	Least      float64 // of OfPeak over the workloads
	P50        float64 // latency of answers over the SLO
}

// Curve is what a setting reaches.
type Curve struct {
	Setting
	Workloads int // that have a plan
	Points    []Point
}

// Measure plays every load in the setting. Stop, where given, is asked now and
// then whether to end.
func Measure(s Setting, workloads []planning.Workload, stop func() bool) (Curve, error) {
	c := Curve{Setting: s, Points: make([]Point, len(Loads()))}
	for _, w := range workloads {
		w.Problem.Pipeline.Arrivals = s.Arrivals
		p := policies.Solve(w.Problem, plan.Options{CostModel: s.CostModel})
		if p.Status == plan.Infeasible {
			continue
		}
		if err := c.play(&w, p, stop); err != nil {
			return c, err
		}
		c.Workloads++
	}
	for i := range c.Points {
		if n := float64(c.Workloads); n > 0 {
			c.Points[i].divide(n)
		}
		c.Points[i].Load = Loads()[i]
	}
	return c, nil
}

// play adds what one workload reaches.
func (c *Curve) play(w *planning.Workload, p plan.Plan, stop func() bool) error {
	all, peak := make([]Point, len(c.Points)), 0.0
	for i, load := range Loads() {
		l := simulate.Load{Pipeline: w.Problem.Pipeline, Arrivals: arrivals.Process{Kind: c.Arrivals}, Rate: load * w.Problem.Pipeline.Rate}
		span := time.Duration(max(1, load) * requests / l.Rate * float64(time.Second))
		r, err := simulate.OnPlans([]simulate.Load{l}, []plan.Plan{p}, simulate.Options{
			Dispatch: c.Dispatch, Eager: true, Admission: c.Admission, Noise: c.Noise, Duration: span, Stop: stop,
		})
		if err != nil {
			return err
		}
		one := r.Pipelines[0]
		all[i].Attainment = float64(one.Completed) / float64(max(1, one.Requests))
		all[i].Goodput = load * all[i].Attainment
		all[i].P50 = float64(one.Latency.P50) / float64(w.Problem.Pipeline.SLO)
		peak = max(peak, all[i].Goodput)
	}
	for i := range all {
		of := all[i].Goodput / max(peak, 1e-12)
		point := &c.Points[i]
		point.Attainment += all[i].Attainment
		point.Goodput += all[i].Goodput
		point.P50 += all[i].P50
		point.OfPeak += of
		if c.Workloads == 0 || of < point.Least {
			point.Least = of
		}
	}
	return nil
}

func (p *Point) divide(n float64) {
	p.Attainment /= n
	p.Goodput /= n
	p.P50 /= n
	p.OfPeak /= n
}
