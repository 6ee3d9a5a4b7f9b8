package experiments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Inputs that are drawn, and minutes that are planned for: all, and for a quick
// look.
const (
	inputs, fewInputs   = 500, 20
	minutes, fewMinutes = 120, 2
)

// groupingFigures are those about applications that share functions.
func groupingFigures() []Figure {
	bySystem := Layout{Down: []string{System}, Across: []string{Metric}}
	byMetric := Layout{Down: []string{Metric}, Across: []string{System}}
	return []Figure{
		{ID: "harmonybatch/table1", Title: "Three applications of VGG-19: costs over those of BATCH (HarmonyBatch, table I)", Seconds: 1, Layout: bySystem, Run: table1},
		{ID: "harmonybatch/table4", Title: "Computation time over the number of applications (HarmonyBatch, table IV)", Seconds: 1,
			Layout: Layout{Down: []string{"applications"}, Across: []string{System}}, Run: harmonyTable4},
		{ID: "harmonybatch/figure4", Title: "VGG-19 on CPU functions: latencies over vCPUs (HarmonyBatch, figure 4)", Seconds: 1,
			Layout:  Layout{Down: []string{"vcpus"}, Across: []string{"group", System}},
			Picture: &Picture{Metric: latency, Panel: []string{"group"}, X: "vcpus", LogX: true, LogY: true, Footer: "By the authors' coefficients."}, Run: latenciesOnCPU},
		{ID: "harmonybatch/figure5", Title: "VGG-19 on GPU functions: latencies over the batch (HarmonyBatch, figure 5)", Seconds: 1,
			Layout:  Layout{Down: []string{"batch"}, Across: []string{"group", System}},
			Picture: &Picture{Metric: latency, Panel: []string{"group"}, X: "batch", Footer: "By the authors' coefficients."}, Run: latenciesOnGPU},
		{ID: "harmonybatch/figure8", Title: "Two slices of a shared GPU: latencies over the time of arrival (HarmonyBatch, figure 8)", Seconds: 1,
			Layout: Layout{Down: []string{"memory_gb", System}, Across: []string{Metric}}, Run: sliced},
		{ID: "harmonybatch/figure7", Title: "Where the cheaper function changes between GPU and CPU (HarmonyBatch, figure 7)", Seconds: 1,
			Layout: Layout{Down: []string{"model", "setting"}, Across: []string{Metric}}, Run: knees},
		{ID: "harmonybatch/figure13", Title: "What merging saves, from a function for each of eight applications on (HarmonyBatch, figures 13 and 14)", Seconds: 1,
			Layout: Layout{Down: []string{"model"}, Across: []string{Metric}}, Run: merging},
		{ID: "harmonybatch/drawn", Title: "The best partition beside the paper's, on 500 drawn inputs", Seconds: 60, Layout: byMetric, Run: drawn},
		{ID: "harmonybatch/traces", Title: "Four applications over two hours, planned every minute (HarmonyBatch, section V)", Seconds: 120,
			Layout: Layout{Down: []string{"model", "billing"}, Across: []string{System}}, Run: traces},
		{ID: "harmonybatch/model", Title: "What requests cost beside what the plan says, where arrivals are random", Seconds: 60, Layout: byMetric, Run: model},
	}
}

// drawFunctions is the i-th input of a suite, of 2 to most applications.
func drawFunctions(seed uint64, i, most int) functions.Problem {
	f, p := published.DrawFunction(seed, i, most)
	return functions.Problem{Function: f, Provider: p}
}

func partOf(e *Env, all, few int) int {
	if e.Quick {
		return few
	}
	return all
}

// drawn plans the inputs by every policy: the best partition never costs more
// than the paper's, and never less than the bound.
func drawn(ctx context.Context, e *Env) (Result, error) {
	var out Result
	all := make([]functions.Comparison, partOf(e, inputs, fewInputs))
	err := e.Each(ctx, "Drawn inputs", len(all), func(i int) (err error) {
		all[i], err = functions.Compare(drawFunctions(1, i, 24), functions.Options{})
		return err
	})
	if err != nil {
		return out, err
	}
	var saved, most, gaps, mostGap, overMBS, better, open float64
	for i, c := range all {
		exact, paper := c.Plan(functions.PolicyExact), c.Plan(functions.PolicyHarmonyBatch)
		if exact.CostPerRequest > paper.CostPerRequest*(1+1e-9) || exact.LowerBound > exact.CostPerRequest*(1+1e-9) || !exact.Sound || !paper.Sound {
			out.Note("DEFECT: on input %d exact costs %g, its bound is %g, and harmonybatch costs %g.", i, exact.CostPerRequest, exact.LowerBound, paper.CostPerRequest)
		}
		share := 1 - exact.CostPerRequest/paper.CostPerRequest
		saved, most = saved+share, max(most, share)
		if share > 1e-6 {
			better++
		}
		if exact.Status != functions.Optimal {
			open, gaps, mostGap = open+1, gaps+exact.Gap(), max(mostGap, exact.Gap())
		}
		if mbs := c.Plan(functions.PolicyMBS); mbs.Status != functions.Infeasible {
			overMBS += 1 - exact.CostPerRequest/mbs.CostPerRequest
		}
	}
	n := float64(len(all))
	for _, m := range []struct {
		name, unit string
		is         float64
	}{
		{"inputs", "", n},
		{"costs less than harmonybatch on", "inputs", better},
		{"saves over harmonybatch, on average", "%", 100 * saved / n},
		{"saves over harmonybatch, at most", "%", 100 * most},
		{"saves over mbs+, on average", "%", 100 * overMBS / n},
		{"too many applications for a proof", "inputs", open},
		{"gap to the bound there, on average", "%", 100 * gaps / open},
		{"gap to the bound there, at most", "%", 100 * mostGap},
	} {
		out.Add(nil, functions.PolicyExact, m.name, m.unit, m.is)
	}
	return out, nil
}

// rates are requests per second of four applications, minute by minute. They
// have the mean rates of the four applications of Azure Functions that the
// paper replays (7.5, 15.6, 28.7 and 11.2 requests per second), and are drawn
// from a seed: every minute is its mean times a log-normal factor.
func rates(seed uint64) [][]float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	const spread = 0.3
	var all [][]float64
	for range minutes {
		var one []float64
		for _, mean := range printedMeans() {
			one = append(one, mean*math.Exp(spread*r.NormFloat64()-spread*spread/2))
		}
		all = append(all, one)
	}
	return all
}

// setting is a model and how its functions are billed.
type setting struct {
	model      string
	billing    time.Duration
	gpu        time.Duration // billing of GPU functions where it is another
	objectives []time.Duration
}

func settings() []setting {
	var all []setting
	for _, billing := range [][2]time.Duration{{0, 0}, {0, time.Second}, {time.Second, 0}} {
		for _, model := range []string{"VGG-19", "BERT", "GPT-2", "VideoMAE"} {
			s := setting{model, billing[0], billing[1], []time.Duration{300, 500, 800, 1000}}
			if model == "GPT-2" || model == "VideoMAE" {
				s.objectives = []time.Duration{1000, 1400, 2000, 2400}
			}
			all = append(all, s)
		}
	}
	return all
}

// terms reports how functions are billed.
func (s *setting) terms() string {
	switch {
	case s.gpu > 0:
		return "GPUs by the second"
	case s.billing > 0:
		return "by the second"
	}
	return "as it is"
}

// spent is what one policy spends over the minutes.
type spent struct{ money, requests, missed float64 }

// traces plans again every minute, by every policy, and replays each plan on
// Poisson arrivals.
func traces(ctx context.Context, e *Env) (Result, error) {
	var out Result
	all := settings()
	sums := make([]map[string]spent, len(all))
	some := rates(1)
	if e.Trace != "" {
		var err error
		if some, err = counted(e.Trace); err != nil {
			return out, err
		}
		out.Note("Counts are those of %s: of its functions, four with mean rates nearest to the paper's.", filepath.Base(e.Trace))
	}
	some = some[:min(len(some), partOf(e, minutes, fewMinutes))]
	err := e.Each(ctx, "Two hours", len(all), func(i int) (err error) {
		sums[i], err = all[i].follow(ctx, some)
		return err
	})
	if err != nil {
		return out, err
	}
	for i, s := range all {
		at := Set("model", s.model, "billing", s.terms())
		var p printedGroups
		if s.gpu > 0 { // as the paper's provider bills
			p = ofModels()[s.model]
		}
		for _, policy := range functions.Policies() {
			x := sums[i][policy]
			out.Add(at, policy, "money per million requests", "", 1e6*x.money/x.requests)
			missed := 0.0
			if policy == functions.PolicyBatch {
				missed = p.missed
			}
			out.AddPrinted(at, policy, "requests that miss their objective", "%", 100*x.missed/x.requests, missed)
		}
		saved := func(over string) float64 {
			return cents(1 - sums[i][functions.PolicyHarmonyBatch].money/sums[i][over].money)
		}
		out.Add(at, functions.PolicyHarmonyBatch+" over "+functions.PolicyBatch, "saved", "%", saved(functions.PolicyBatch))
		out.AddPrinted(at, functions.PolicyHarmonyBatch+" over "+functions.PolicyMBS, "saved", "%", saved(functions.PolicyMBS), p.saved)
	}
	out.Note("The paper states savings of up to 82.9 %% over the two baselines together.")
	return out, nil
}

// cents is a share in per cent, to the hundredth.
func cents(share float64) float64 { return math.Round(1e4*share) / 100 }

// follow adds up what every policy spends.
func (s setting) follow(ctx context.Context, minutes [][]float64) (map[string]spent, error) {
	sums := map[string]spent{}
	for minute, rates := range minutes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p := functions.Problem{Provider: published.Cloud(), Function: pipelines.Function{Name: s.model, Provider: "cloud", Profile: published.HarmonyBatch()[s.model]}}
		p.Provider.Billing, p.Provider.GPUBilling = s.billing, s.gpu
		for i, rate := range rates {
			if rate == 0 { // counts may be
				continue
			}
			p.Function.Applications = append(p.Function.Applications, pipelines.Application{
				Name: fmt.Sprintf("app%d", i+1), SLO: s.objectives[i] * time.Millisecond, Rate: rate,
			})
		}
		if len(p.Function.Applications) == 0 {
			continue
		}
		c, err := functions.Compare(p, functions.Options{})
		if err != nil {
			return nil, err
		}
		for _, plan := range c.Plans {
			got, err := functions.Simulate(p, plan, functions.SimulateOptions{Duration: time.Minute, Seed: uint64(minute)})
			if err != nil {
				return nil, err
			}
			x := sums[plan.Policy]
			x.money += plan.CostPerRequest * float64(got.Requests)
			x.requests += float64(got.Requests)
			x.missed += float64(got.Late + got.Dropped)
			sums[plan.Policy] = x
		}
	}
	return sums, nil
}

// model replays the best plans of drawn inputs: the plan takes every batch for
// full, and arrivals that come in bursts and gaps fill them less often.
func model(ctx context.Context, e *Env) (Result, error) {
	var out Result
	over := make([]float64, partOf(e, inputs, fewInputs))
	err := e.Each(ctx, "Replays", len(over), func(i int) error {
		p := drawFunctions(8, i, 10)
		plan, err := functions.Solve(p, functions.Options{})
		if err != nil {
			return err
		}
		got, err := functions.Simulate(p, plan, functions.SimulateOptions{Duration: time.Duration(4000 / plan.Rate * float64(time.Second)), Seed: 1})
		over[i] = got.CostPerRequest/got.Predicted - 1
		return err
	})
	if err != nil {
		return out, err
	}
	sum, most := 0.0, 0.0
	for _, x := range over {
		sum, most = sum+x, max(most, x)
	}
	out.Add(nil, functions.PolicyExact, "inputs", "", float64(len(over)))
	out.Add(nil, functions.PolicyExact, "requests cost more than the plan says, on average", "%", 100*sum/float64(len(over)))
	out.Add(nil, functions.PolicyExact, "and at most", "%", 100*most)
	return out, nil
}

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
	return out, nil
}

// harmonyTable4 measures how long policies take for one, six and twelve applications.
func harmonyTable4(ctx context.Context, e *Env) (out Result, err error) {
	err = e.Each(ctx, "Computation times", 1, func(int) error { return addTimes(&out, e) })
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
		all := applications(first, step, e.mergedRates())
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
		out.Add(at, functions.PolicyHarmonyBatch, "merges", "", float64(len(all)-len(merged.Groups)))
		saved := cents(1 - merged.CostPerRequest*rate/apart)
		if model == "VGG-19" {
			out.AddPrinted(at, functions.PolicyHarmonyBatch, "saved by merging", "%", saved, 38.4)
		} else {
			out.AddWithin(at, functions.PolicyHarmonyBatch, "saved by merging", "%", saved, 13.1, 62.4)
		}
		of := func(printed float64) float64 { return map[string]float64{"VGG-19": printed}[model] }
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "groups on GPUs before", "", float64(alone), of(1))
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "groups on GPUs after", "", float64(groups), of(1))
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "groups on CPUs after", "", float64(len(merged.Groups)-groups), of(2))
		out.AddPrinted(at, functions.PolicyHarmonyBatch, "requests on GPUs", "%", 100*onGPU/rate, of(79))
	}
	out.Note("Eight applications each: objectives of 0.3 to 1.0 s, for VideoMAE and GPT-2 of 1.0 to 2.4 s, at the mean rates of the four applications of the trace, twice; the paper does not print its rates. GPU functions are billed by the second, as its provider does. The paper has 4 to 7 merges that save 13.1 to 62.4 %%, and for VGG-19 two CPU groups and one GPU group, which began as seven and one.")
	return out, nil
}

// mergedRates are those of the eight applications of figure 13.
func (e *Env) mergedRates() []float64 {
	list := append(printedMeans(), printedMeans()...)
	if e.Holds(halfRates) {
		for i := range list {
			list[i] /= 2
		}
	}
	return list
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
