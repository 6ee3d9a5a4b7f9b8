package scheduler_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Where plans keep a stated attainment under random arrivals less load or a looser
// objective costs no more, either.
func TestLessDoesNotCostMoreWithAnAttainment(t *testing.T) {
	for _, model := range plan.CostModels() {
		t.Run(model, func(t *testing.T) {
			random := rand.New(rand.NewPCG(4, 8))
			for pair := range 15 {
				hard := small("p", 10*math.Exp2(6*random.Float64()))
				hard.SLO = time.Duration(float64(hard.SLO) * (0.5 + random.Float64()))
				hard.Arrivals, hard.Attainment, hard.Plan.CostModel = pipelines.ArrivalsPoisson, 0.95, model
				easy := *hard
				if by := 1 + []float64{0.01, 0.2, 2}[pair%3]; random.IntN(2) == 0 {
					easy.Rate /= by
				} else {
					easy.SLO = time.Duration(float64(easy.SLO) * by)
				}
				cost := func(p *pipelines.Pipeline) float64 {
					found := scheduler.Solve([]scheduler.Spec{{Pipeline: p, Hardware: twoKinds}}, scheduler.Fleet{}, scheduler.Limits{})[0].Pipeline
					if found.Status == plan.Infeasible {
						return math.Inf(1)
					}
					return found.Cost
				}
				before, after := cost(hard), cost(&easy)
				assert.LessOrEqual(t, after, before*(1+2*plan.OptimalityGap), "pair %d: %v/s within %v, then %v/s within %v", pair, hard.Rate, hard.SLO, easy.Rate, easy.SLO)
				t.Logf("pair %d: %g, then %g", pair, before, after)
			}
		})
	}
}
