package experiments

import (
	"context"
	"errors"

	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// overloadFigures are those about overload.
func overloadFigures() []Figure {
	return []Figure{{
		ID: "dispatching/overload", Title: "Goodput beyond capacity, durations that vary by 30 %", Seconds: 1200,
		Layout: Layout{Down: []string{System}, Across: []string{"load"}}, Run: runOverload,
		Picture: &Picture{Metric: "goodput in capacities", Panel: []string{"arrivals", "devices"}, X: "load", LogX: true,
			Footer: "Simulated; the first 20 workloads of the suite, durations with a coefficient of variation of 0.3. Capacity is the highest goodput of a plan at 0.8 to 3 times its rate."},
	}, dropping()}
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
