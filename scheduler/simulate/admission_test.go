package simulate_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

var (
	admissionDraws = flag.Int("admission-draws", 12, "pipelines for each cost model that TestAdmissionCostsNothing draws")
	admissionFirst = flag.Uint64("admission-first", 0, "the first of them")
)

// drawTight draws a pipeline of up to six modules with an objective of 1.1 to 5.1 times its
// fastest path, from 2 to 500 requests a second: some have fewer than one under way, and many
// are planned with batches of one.
func drawTight(r *rand.Rand) plan.Problem {
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "base", Price: 1}, {Name: "fast", Price: 1.5 + 1.5*r.Float64()}}}
	p.Pipeline = pipelines.Pipeline{Name: "p", Rate: 2 * math.Pow(250, r.Float64()), Arrivals: "even"}
	for i := range 1 + r.IntN(6) {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		for j := range i {
			if j == i-1 && len(m.Inputs) == 0 || r.IntN(3) == 0 {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("i%d", j), From: pipelines.Ref{Module: fmt.Sprintf("m%d", j), Port: "out"}})
			}
		}
		fixed, each := 2+20*r.Float64(), 0.3+8*r.Float64()*r.Float64()
		for k, speed := range []float64{1, 1.3 + 2*r.Float64()} {
			for s := 1; s <= 2; s++ {
				for b := 1; b <= 32; b *= 2 {
					d := time.Duration((fixed + each*float64(b)) / speed * (1 + 0.6*float64(s-1)) * 1e6)
					m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: p.Hardware[k].Name, Batch: b, Concurrency: s, Duration: d, MemoryMiB: 100})
				}
			}
		}
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	_, fastest, _ := p.Pipeline.LongestPath(func(name string) time.Duration {
		least := time.Hour
		for _, pt := range p.Pipeline.Module(name).Profile.Points {
			least = min(least, pt.Duration)
		}
		return least
	})
	p.Pipeline.SLO = time.Duration(float64(fastest) * (1.1 + 4*r.Float64()*r.Float64()))
	return p
}

// TestAdmissionCostsNothing: up to the planned rate as many requests are in time with admission
// as without, and beyond it no fewer. Even arrivals at the rates that a proof is for lose none.
func TestAdmissionCostsNothing(t *testing.T) {
	type setting struct {
		arrivals string
		load     float64 // in planned rates
	}
	for _, model := range pipelines.CostModels() {
		sums, worst, plans, below := map[setting][2]float64{}, 0.0, 0.0, 0
		for seed := *admissionFirst; seed < *admissionFirst+uint64(*admissionDraws); seed++ {
			problem := drawTight(rand.New(rand.NewPCG(seed, 1)))
			o := plan.Options{CostModel: model, TimeLimit: 2 * time.Second}
			if seed%4 == 3 {
				o.Policy = plan.PolicyPiccolo
			}
			p := policies.Solve(problem, o)
			if p.Status == plan.Infeasible {
				continue
			}
			plans++
			for _, kind := range []string{"even", "poisson"} {
				for _, load := range []float64{0.1, 0.3, 0.7, 0.9, 1, 2, 5} {
					with, without := playAdmission(t, problem.Pipeline, p, kind, load, true), playAdmission(t, problem.Pipeline, p, kind, load, false)
					at := setting{kind, load}
					sums[at] = [2]float64{sums[at][0] + with, sums[at][1] + without}
					if load <= 1 {
						worst = max(worst, without-with)
						if without-with > 0.005 {
							below++
						}
						assert.GreaterOrEqual(t, with, without-0.03, "%s, seed %d, %s, %g of the planned rate", model, seed, kind, load)
						if kind == "even" && without == 1 {
							assert.Equal(t, 1.0, with, "%s, seed %d, even, %g of the planned rate", model, seed, load)
						}
					}
				}
			}
		}
		for at, sum := range sums {
			t.Logf("%s, %s, %g of the planned rate: in time %.4f with admission, %.4f without", model, at.arrivals, at.load, sum[0]/plans, sum[1]/plans)
			assert.GreaterOrEqual(t, sum[0], sum[1]-0.005*plans, "%s, %s, %g of the planned rate", model, at.arrivals, at.load)
		}
		t.Logf("%s: %g plans, %d of %g runs lose more than 0.005, the most is %.4f", model, plans, below, plans*10, worst)
	}
}

// playAdmission gives the share of requests that are in time.
func playAdmission(t *testing.T, p pipelines.Pipeline, of plan.Plan, kind string, load float64, admission bool) float64 {
	duration := time.Duration(min(120, 4000/(p.Rate*load)) * float64(time.Second))
	r, err := simulate.OnPlans([]simulate.Load{{Pipeline: p, Rate: p.Rate * load, Arrivals: arrivals.Process{Kind: kind}}}, []plan.Plan{of},
		simulate.Options{Dispatch: "tc", Duration: duration, Seed: 1, Eager: true, Admission: admission, MaxQueue: 1 << 20})
	require.NoError(t, err)
	return r.Pipelines[0].Attainment
}
