package functions

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// traceMinutes is how long the traces are that the plans follow; six minutes
// without HARPAGON_FUNCTIONS_SUITE=full.
const traceMinutes = 120

// traces are requests per second of four applications, minute by minute. They
// have the mean rates of the four applications of Azure Functions that the
// paper replays (7.5, 15.6, 28.7 and 11.2 requests per second), and are drawn
// from a seed: every minute is its mean times a log-normal factor.
func traces(seed uint64) [][]float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	const spread = 0.3
	var minutes [][]float64
	for range traceMinutes {
		var rates []float64
		for _, mean := range []float64{7.5, 15.6, 28.7, 11.2} {
			rates = append(rates, mean*math.Exp(spread*r.NormFloat64()-spread*spread/2))
		}
		minutes = append(minutes, rates)
	}
	return minutes
}

// traced is what one policy spends over the traces.
type traced struct{ spent, requests, missed float64 }

func (x traced) perMillion() float64 { return 1e6 * x.spent / x.requests }

// TestTraces plans anew every minute, by every policy, and replays each plan on
// Poisson arrivals. The table is in docs/functions.md; in the paper
// HarmonyBatch saves up to 82.9 % of what BATCH spends.
func TestTraces(t *testing.T) {
	t.Logf("%-9s %-8s %8s %8s %8s %8s  %8s %8s  %10s %10s", "model", "billing", "batch", "mbs+", "harmony", "exact", "saved", "of mbs+", "batch late", "exact late")
	for _, billing := range []time.Duration{0, time.Second} {
		for _, name := range []string{"VGG-19", "BERT", "GPT-2", "VideoMAE"} {
			objectives := []time.Duration{300, 500, 800, 1000}
			if name == "GPT-2" || name == "VideoMAE" {
				objectives = []time.Duration{1000, 1400, 2000, 2400}
			}
			sums := trace(t, name, billing, objectives)
			saved := 1 - sums[PolicyHarmonyBatch].perMillion()/sums[PolicyBatch].perMillion()
			overMBS := 1 - sums[PolicyHarmonyBatch].perMillion()/sums[PolicyMBS].perMillion()
			late := func(policy string) float64 { return 100 * sums[policy].missed / sums[policy].requests }
			t.Logf("%-9s %-8v %8.2f %8.2f %8.2f %8.2f  %7.1f%% %7.1f%%  %9.2f%% %9.2f%%", name, billing,
				sums[PolicyBatch].perMillion(), sums[PolicyMBS].perMillion(), sums[PolicyHarmonyBatch].perMillion(), sums[PolicyExact].perMillion(),
				100*saved, 100*overMBS, late(PolicyBatch), late(PolicyExact))
			assert.LessOrEqual(t, sums[PolicyExact].spent, sums[PolicyHarmonyBatch].spent*(1+1e-9))
			assert.Greater(t, saved, 0.5, name)
			assert.Zero(t, sums[PolicyExact].missed+sums[PolicyHarmonyBatch].missed)
			assert.Positive(t, sums[PolicyBatch].missed)
		}
	}
}

func trace(t *testing.T, name string, billing time.Duration, objectives []time.Duration) map[string]traced {
	sums := map[string]traced{}
	minutes := traces(1)
	if !full() {
		minutes = minutes[:6]
	}
	for minute, rates := range minutes {
		p := Problem{Provider: cloud(), Function: pipelines.Function{Name: name, Provider: "cloud", Profile: models()[name]}}
		p.Provider.Billing = billing
		for i, rate := range rates {
			p.Function.Applications = append(p.Function.Applications, pipelines.Application{
				Name: fmt.Sprintf("app%d", i+1), SLO: objectives[i] * time.Millisecond, Rate: rate,
			})
		}
		c, err := Compare(p, Options{})
		require.NoError(t, err)
		for _, plan := range c.Plans {
			got, err := Replay(p, plan, ReplayOptions{Duration: time.Minute, Seed: uint64(minute)})
			require.NoError(t, err)
			x := sums[plan.Policy]
			x.spent += plan.CostPerRequest * float64(got.Requests)
			x.requests += float64(got.Requests)
			x.missed += float64(got.Late + got.Dropped)
			sums[plan.Policy] = x
		}
	}
	return sums
}
