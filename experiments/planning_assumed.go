package experiments

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
)

// regime is what the workloads of a paper's figures are drawn from.
func (e *Env) regime() Regime {
	g := Published()
	if e.Holds(denseRegime) {
		g.Name, g.Rate, g.SLO = g.Name+", dense", [2]float64{400, 1500}, [2]float64{1.5, 3}
	}
	if e.Holds(sparseRegime) {
		g.Name, g.Rate = g.Name+", sparse", [2]float64{15, 60}
	}
	if e.Holds(tableBatches) || e.Holds(noSingles) {
		g.Name, g.Batches = g.Name+", batches of table I", [][]int{{2, 4, 8}, {2, 8, 32}}
	}
	if e.Holds(moduleSpeeds) {
		g.Name, g.PerModule = g.Name+", speeds by module", true
		g.Devices = func(d drawer) []drawnDevice {
			list := testbed(d)
			list[1].speed = d.between(0.5, 0.85)
			return list
		}
	}
	if e.Holds(unlike) {
		g.Name, g.Start[0], g.Step[0] = g.Name+", unlike modules", g.Start[1]/8, g.Step[1]/8
	}
	return g
}

// variant is one of a paper's variants under the assumptions that hold.
func (e *Env) variant(v Variant) Variant {
	o := v.Options
	if e.Holds(bareSplits) && o.Split != "" {
		o.Without = append(slices.Clone(o.Without), "reassign")
		if o.Policy == plan.PolicyHarpagon {
			o.Without = append(o.Without, "merge", "direct")
		}
	}
	c := paper.Custom{Base: o.Policy, Fill: e.Holds(fillDummies) && o.Policy == plan.PolicyPiccolo}
	if e.Holds(halfMore) && slices.Contains(o.Without, "dt") {
		c.Multiple = halfMultiple
	}
	if c.Fill || c.Multiple > 0 {
		o = c.Options(o)
	}
	v.Options = o
	return v
}

// variants are those of a paper, the whole policy first.
func (e *Env) variants(name string) []Variant {
	list := Ablations(name)
	for i, v := range list {
		list[i] = e.variant(v)
	}
	return list
}

// systems are the four that both papers compare with.
func (e *Env) systems() (list []Variant) {
	for _, name := range []string{plan.PolicyNexus, plan.PolicyScrooge, plan.PolicyInferLine, plan.PolicyClipper} {
		v := Variant{Name: name, Options: plan.Options{Policy: name, CostModel: plan.CostProportional}}
		if name == plan.PolicyScrooge && e.Holds(halfMore) {
			v.Options = paper.Custom{Base: name, Multiple: halfMultiple}.Options(v.Options)
		}
		list = append(list, v)
	}
	return list
}

// optimum is what a paper's policy is compared with.
func (e *Env) optimum(name string) Variant {
	whole := Ablations(name)[0]
	v := Variant{Name: plan.PolicyBrute, Options: plan.Options{Policy: plan.PolicyBrute, CostModel: plan.CostProportional}, Every: sampled(plan.PolicyBrute, plan.CostProportional)}
	if e.Holds(bestSplit) {
		v.Options, v.Every = whole.Options, 0
		v.Options.Split = "quantized:1ms"
		held := *e
		held.Assumed = slices.DeleteFunc(slices.Clone(e.Assumed), func(a string) bool { return a == bareSplits })
		return held.variant(v)
	}
	v.Options.Concurrency = whole.Options.Policy == plan.PolicyPiccolo
	return v
}

// halfMultiple is the worst case of machines that collect by configuration, in durations.
const halfMultiple = 1.5
