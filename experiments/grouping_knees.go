package experiments

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Settings of figure 7 (HarmonyBatch, section II-B).
const (
	kneeRate    = 20.0 // requests a second, where the objective changes
	kneeSLO     = time.Second
	kneeStep    = 10 * time.Millisecond
	kneeLongest = 1200 * time.Millisecond
	kneeFastest = 40.0
	kneeEach    = 0.1
)

// knees finds where the cheapest function of one application changes its platform: over
// objectives from GPU to CPU and back, over rates from CPU to GPU.
func knees(ctx context.Context, e *Env) (out Result, err error) {
	printed := map[string][3]float64{"VGG-19": {0.39, 0.6, 9.5}, "BERT": {0.3, 0.52, 8}} // read off the plots
	for _, model := range []string{"VGG-19", "BERT"} {
		p := functions.Problem{Provider: published.Cloud(), Function: pipelines.Function{Name: model, Provider: "cloud", Profile: published.HarmonyBatch()[model]}}
		p.Provider.GPUBilling = time.Second
		if e.Holds(authorsCloud) && model == "VGG-19" {
			p.Provider, p.Function.Profile.Memory = published.AuthorsCloud(), published.VGG19Memory()
		}
		on := func(slo time.Duration, rate float64) (functions.Platform, error) {
			p.Function.Applications = []pipelines.Application{{Name: "app", SLO: slo, Rate: rate}}
			plan, err := functions.Solve(p, functions.Options{Policy: functions.PolicyHarmonyBatch})
			if err != nil || len(plan.Groups) == 0 {
				return "", err
			}
			return plan.Groups[0].Platform, ctx.Err()
		}
		var changes []float64
		before := functions.GPU
		for slo := 10 * kneeStep; slo <= kneeLongest && len(changes) < 2; slo += kneeStep {
			now, err := on(slo, kneeRate)
			if err != nil {
				return out, err
			}
			if now != "" && now != before {
				changes, before = append(changes, slo.Seconds()), now
			}
		}
		for i, seconds := range changes {
			what := []string{"from GPU to CPU, 20 requests a second", "from CPU to GPU, 20 requests a second"}[i]
			out.AddPrinted(Set("model", model, "setting", what), functions.PolicyHarmonyBatch, "objective", "s", seconds, printed[model][i])
		}
		for rate := kneeEach; rate <= kneeFastest; rate += kneeEach {
			now, err := on(kneeSLO, rate)
			if err != nil {
				return out, err
			}
			if now == functions.GPU {
				out.AddPrinted(Set("model", model, "setting", "from CPU to GPU, objective 1 s"), functions.PolicyHarmonyBatch, "rate", "1/s", rate, printed[model][2])
				break
			}
		}
	}
	out.Note("The printed ones are read off the plots. GPU functions are billed by the second, as the provider does.")
	return out, nil
}
