package experiments

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Defaults of what is measured.
const (
	DefaultNoise = 0.3
	workloads    = 20   // of the suite
	requests     = 1500 // of a run at the planned rate, at least
	objectives   = 60   // that a run lasts, at least: fewer are a matter of chance
	runs         = 4    // of every point, of which the mean counts: one alone is off by up to a tenth
)

// Loads are the offered loads that are measured, in capacities.
func Loads() []float64 { return []float64{0.3, 0.6, 0.8, 1, 1.2, 2, 3, 10} }

// tried are the loads among which capacity is looked for, in planned rates: a plan that
// keeps time or devices free does more than it was made for.
func tried() []float64 { return []float64{0.8, 1, 1.25, 1.6, 2, 3} }

// OverloadSetting is a way to serve.
type OverloadSetting struct {
	CostModel string
	Arrivals  string // declared and offered: even or poisson
	Dispatch  string
	Admission bool
	Noise     float64 // coefficient of variation of durations
}

// Point of a curve: the means over the workloads that have a plan.
type Point struct {
	Load       float64 // offered, in capacities
	Attainment float64
	Goodput    float64 // in capacities
	OfPeak     float64 // goodput over the most that the workload reached at this load or less
	Least      float64 // of OfPeak over the workloads
	P50        float64 // latency of answers over the SLO
}

// Curve is what a setting reaches.
type Curve struct {
	OverloadSetting
	Workloads int     // that have a plan
	Capacity  float64 // in planned rates, on average
	Points    []Point
}

// Measure plays every load in the setting. Stop, where given, is asked now and
// then whether to end.
func Measure(s OverloadSetting, workloads []Workload, stop func() bool) (Curve, error) {
	c := Curve{OverloadSetting: s, Points: make([]Point, len(Loads()))}
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
	if n := float64(c.Workloads); n > 0 {
		c.Capacity /= n
		for i := range c.Points {
			c.Points[i].divide(n)
		}
	}
	for i := range c.Points {
		c.Points[i].Load = Loads()[i]
	}
	return c, nil
}

// play adds what one workload reaches.
func (c *Curve) play(w *Workload, p plan.Plan, stop func() bool) error {
	capacity := 0.0
	for _, load := range tried() {
		attainment, _, err := c.mean(w, p, load, stop)
		if err != nil {
			return err
		}
		capacity = max(capacity, load*attainment)
	}
	c.Capacity += capacity
	peak := 0.0
	for i, load := range Loads() {
		attainment, p50, err := c.mean(w, p, load*capacity, stop)
		if err != nil {
			return err
		}
		goodput := load * attainment
		peak = max(peak, goodput)
		point, of := &c.Points[i], goodput/max(peak, 1e-12)
		point.Attainment += attainment
		point.Goodput += goodput
		point.P50 += p50 / w.Problem.Pipeline.SLO.Seconds()
		point.OfPeak += of
		if c.Workloads == 0 || of < point.Least {
			point.Least = of
		}
	}
	return nil
}

// mean plays one load, in planned rates, several times, and gives the means of the attainment
// and of the median latency in seconds.
func (c *Curve) mean(w *Workload, p plan.Plan, load float64, stop func() bool) (attainment, p50 float64, err error) {
	planned := w.Problem.Pipeline.Rate
	span := max(time.Duration(requests/planned*float64(time.Second)), objectives*w.Problem.Pipeline.SLO)
	for seed := range uint64(runs) {
		r, err := simulate.OnPlans([]simulate.Load{{Pipeline: w.Problem.Pipeline, Arrivals: arrivals.Process{Kind: c.Arrivals}, Rate: load * planned}}, []plan.Plan{p}, simulate.Options{
			Dispatch: c.Dispatch, Eager: true, Admission: c.Admission, Noise: c.Noise, Duration: span, Seed: seed, Stop: stop,
		})
		if err != nil {
			return 0, 0, err
		}
		attainment += r.Pipelines[0].Attainment / runs
		p50 += r.Pipelines[0].Latency.P50.Seconds() / runs
	}
	return attainment, p50, nil
}

func (p *Point) divide(n float64) {
	p.Attainment /= n
	p.Goodput /= n
	p.P50 /= n
	p.OfPeak /= n
}
