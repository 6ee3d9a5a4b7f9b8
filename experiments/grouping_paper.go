package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// applications have objectives first, first+step, ... in milliseconds.
func applications(first, step int, rates []float64) []pipelines.Application {
	var all []pipelines.Application
	for i, rate := range rates {
		all = append(all, pipelines.Application{Name: fmt.Sprintf("app%d", i+1), SLO: time.Duration(first+i*step) * time.Millisecond, Rate: rate})
	}
	return all
}

// example is that of the paper's Table I on the terms of its authors' program.
func example() functions.Problem {
	f := pipelines.Function{Name: "VGG-19", Provider: "cloud", Profile: published.VGG19()}
	f.Profile.Memory = published.VGG19Memory()
	for _, a := range []struct{ slo, rate float64 }{{0.5, 5}, {0.8, 10}, {1.0, 20}} {
		f.Applications = append(f.Applications, pipelines.Application{Name: fmt.Sprintf("%g s", a.slo), SLO: time.Duration(a.slo * 1e9), Rate: a.rate})
	}
	return functions.Problem{Function: f, Provider: published.AuthorsCloud()}
}

// table1 plans the example by every policy.
func table1(context.Context, *Env) (out Result, err error) {
	printed := map[string]float64{functions.PolicyBatch: 1, functions.PolicyMBS: 0.88, functions.PolicyHarmonyBatch: 0.63}
	c, err := functions.Compare(example(), functions.Options{})
	if err != nil {
		return out, err
	}
	base := c.Plan(functions.PolicyBatch).CostPerRequest
	for _, p := range c.Plans {
		out.AddPrinted(nil, p.Policy, "cost over batch's", "", p.CostPerRequest/base, printed[p.Policy])
		out.Add(nil, p.Policy, "groups", "", float64(len(p.Groups)))
		out.Add(nil, p.Policy, "keeps every objective", "", map[bool]float64{true: 1}[p.Sound])
	}
	out.Note("VGG-19 for three applications: 0.5, 0.8 and 1 s at 5, 10 and 20 requests per second. The printed 0.63 follows from two slips of the authors' program, in its equations 5 and 9; with them it is met to two digits (go test ./scheduler/functions -run TableI).")
	out.Explain(functions.PolicyMBS, "cost over batch's", "the paper's MBS+ divides the requests evenly into a CPU and a GPU group; ours tries every number of groups, and eleven functions for each, and finds better ones.")
	return out, nil
}

// harmonyTable4 measures how long policies take for one, six and twelve applications.
func harmonyTable4(ctx context.Context, e *Env) (out Result, err error) {
	err = e.Each(ctx, "Computation times", 1, func(int) error { return addTimes(&out, e) })
	out.Explain("", "computation time", "the paper's are programs in Python on another machine; here a program in Go finds the best function of a group in a sorted list.")
	return out, err
}

func addTimes(out *Result, e *Env) error {
	printed := map[string][]float64{functions.PolicyBatch: {34, 222, 393}, functions.PolicyMBS: {176, 3497, 8156}, functions.PolicyHarmonyBatch: {2, 23, 38}}
	for i, n := range []int{1, 6, 12} {
		p := functions.Problem{Provider: published.Cloud(), Function: pipelines.Function{Name: "VGG-19", Provider: "cloud", Profile: published.VGG19()}}
		rates := make([]float64, n)
		for k := range rates {
			rates[k] = printedMeans()[k%len(printedMeans())]
		}
		p.Function.Applications = applications(300, 100, rates)
		for _, policy := range functions.Policies() {
			begin := e.Now()
			if _, err := functions.Solve(p, functions.Options{Policy: policy}); err != nil {
				return err
			}
			paper := 0.0
			if printed[policy] != nil {
				paper = printed[policy][i]
			}
			out.AddPrinted(Set("applications", n), policy, "computation time", "ms", (e.Now()-begin).Seconds()*1e3, paper)
		}
	}
	return nil
}

// merging compares functions of their own for eight applications with the groups that the
// paper's two stages of merging leave.
func merging(ctx context.Context, e *Env) (out Result, err error) {
	for _, model := range []string{"VideoMAE", "VGG-19", "BERT", "GPT-2"} {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		first, step := 300, 100
		if model == "VideoMAE" || model == "GPT-2" {
			first, step = 1000, 200
		}
		p := functions.Problem{Provider: published.Cloud(), Function: pipelines.Function{Name: model, Provider: "cloud", Profile: published.HarmonyBatch()[model]}}
		p.Provider.GPUBilling = time.Second
		apart, rate, alone := 0.0, 0.0, 0
		all := applications(first, step, append(printedMeans(), printedMeans()...))
		for _, a := range all {
			p.Function.Applications = []pipelines.Application{a}
			one, err := functions.Solve(p, functions.Options{Policy: functions.PolicyHarmonyBatch})
			if err != nil {
				return out, err
			}
			apart, rate = apart+one.CostPerRequest*a.Rate, rate+a.Rate
			if len(one.Groups) > 0 && one.Groups[0].Platform == functions.GPU {
				alone++
			}
		}
		p.Function.Applications = all
		merged, err := functions.Solve(p, functions.Options{Policy: functions.PolicyHarmonyBatch})
		if err != nil {
			return out, err
		}
		onGPU, groups := 0.0, 0
		for _, g := range merged.Groups {
			if g.Platform == functions.GPU {
				onGPU, groups = onGPU+g.Rate, groups+1
			}
		}
		at := Set("model", model)
		printedSaving := map[string]float64{"VGG-19": 38.4}
		out.Add(at, functions.PolicyHarmonyBatch, "merges", "", float64(len(all)-len(merged.Groups)))
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "saved by merging", "%", cents(1-merged.CostPerRequest*rate/apart), printedSaving[model])
		out.Add(at, functions.PolicyHarmonyBatch, "groups on GPUs before", "", float64(alone))
		out.Add(at, functions.PolicyHarmonyBatch, "groups on GPUs after", "", float64(groups))
		out.Add(at, functions.PolicyHarmonyBatch, "groups on CPUs after", "", float64(len(merged.Groups)-groups))
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "requests on GPUs", "%", 100*onGPU/rate, map[string]float64{"VGG-19": 79}[model])
	}
	out.Note("Eight applications each: objectives of 0.3 to 1.0 s, for VideoMAE and GPT-2 of 1.0 to 2.4 s, at the mean rates of the four applications of the trace, twice; the paper does not say its rates. GPU functions are billed by the second, as its provider does. The paper has 4 to 7 merges that save 13.1 to 62.4 %%, and for VGG-19 two CPU groups and one GPU group, which began as seven and one.")
	out.Explain("", "", "rates decide which applications begin on GPU functions, and the paper does not print its own.")
	return out, nil
}

// printedMeans are the mean rates of the four applications of Azure Functions that the paper replays.
func printedMeans() []float64 { return []float64{7.5, 15.6, 28.7, 11.2} }

// printedGroups is what the paper has of a model: what harmonybatch saves over MBS+ (section V-C), and
// the share of BATCH's requests that miss their objective (figure 12, read off the chart), both in
// per cent.
type printedGroups struct{ saved, missed float64 }

func ofModels() map[string]printedGroups {
	return map[string]printedGroups{"VideoMAE": {16.1, 23}, "VGG-19": {59.6, 3.5}, "BERT": {54.5, 2}, "GPT-2": {52.9, 14.5}}
}
