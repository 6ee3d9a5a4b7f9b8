package experiments

import (
	"context"
	"errors"
	"time"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
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

// Measure plays every load in the setting. Stop, where given, is polled; true ends the run.
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

// overloadFigures are those about overload.
func overloadFigures() []Figure {
	return []Figure{{
		ID: "dispatching/overload", Title: "Goodput beyond capacity, durations that vary by 30 %", Seconds: 1200,
		Layout: Layout{Down: []string{"arrivals", "devices", System}, Across: []string{"load"}}, Run: runOverload,
		Picture: &Picture{Metric: "goodput in capacities", Panel: []string{"arrivals", "devices"}, X: "load", LogX: true,
			Footer: "Simulated; the first 20 workloads of the suite, durations with a coefficient of variation of 0.3. Capacity is the highest goodput of a plan at 0.8 to 3 times its rate."},
	}, dropping(), overFanout()}
}

func runOverload(ctx context.Context, e *Env) (Result, error) {
	var out Result
	n := workloads
	if e.Quick {
		n = 1
	}
	drawn, err := Workloads(DefaultSeed, n)
	if err != nil {
		return out, err
	}
	curves := make([]Curve, 0, 16)
	for _, arrivals := range []string{"poisson", "even"} {
		for _, model := range []string{plan.CostShared, plan.CostWhole} {
			for _, p := range []string{factory.Default, "adaptive", "eager"} {
				s := OverloadSetting{CostModel: model, Arrivals: arrivals, Dispatch: p, Admission: true, Noise: DefaultNoise}
				curves = append(curves, Curve{OverloadSetting: s})
				if s.Admission = false; p == factory.Default {
					curves = append(curves, Curve{OverloadSetting: s})
				}
			}
		}
	}
	stop := func() bool { return ctx.Err() != nil }
	err = e.Each(ctx, "Goodput over load", len(curves), func(i int) (err error) {
		curves[i], err = Measure(curves[i].OverloadSetting, drawn, stop)
		if errors.Is(err, simulate.ErrStopped) {
			return ctx.Err()
		}
		return err
	})
	for i := range curves {
		curves[i].addTo(&out)
	}
	return out, err
}

// addTo appends the points of a curve. The share of the peak is of interest
// beyond capacity.
func (c *Curve) addTo(out *Result) {
	name := c.Dispatch
	if !c.Admission {
		name += ", every request taken in"
	}
	out.Add(Set("arrivals", c.Arrivals, "devices", c.CostModel, "workloads", c.Workloads, "load", "all"), name, "capacity in planned rates", "", c.Capacity)
	for _, p := range c.Points {
		at := Set("arrivals", c.Arrivals, "devices", c.CostModel, "workloads", c.Workloads, "load", p.Load)
		out.Add(at, name, "goodput in capacities", "", p.Goodput)
		if p.Load > 1 {
			out.Add(at, name, "of the peak, on average", "", p.OfPeak)
			out.Add(at, name, "of the peak, at least", "", p.Least)
		}
	}
}
