package experiments

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/harpagon/harpagon/scheduler/cluster"
)

// What is divided in figure 15 (appendix A.2).
const (
	dividedModels   = 800
	subClusters     = 20
	dividedDraws    = 20 // problems
	randomDivisions = 2000
	dividedRate     = 100_000.0 // requests per second of all models
)

// partitionFigure compares the division of models among sub-clusters with the best of
// many random ones, as figure 15 does.
func partitionFigure() Figure {
	return Figure{ID: "symphony/figure15", Title: "800 models divided among 20 sub-clusters (Symphony, figure 15)", Seconds: 180,
		Layout: Layout{Down: []string{"problem"}, Across: []string{Metric, System}}, Run: divided}
}

func divided(ctx context.Context, e *Env) (out Result, err error) {
	draws := dividedDraws
	if e.Quick {
		draws = 1
	}
	type found struct{ gap, took float64 }
	var rate, memory [dividedDraws][2]float64
	var seen [dividedDraws]found
	err = e.Each(ctx, "Problems", draws, func(i int) error {
		rng := rand.New(rand.NewPCG(uint64(i), 15))
		p := cluster.PartitionProblem{Models: drawModels(rng, dividedModels), SubClusters: subClusters}
		began := e.Now()
		r, err := cluster.Partition(p)
		if err != nil {
			return err
		}
		seen[i].took, seen[i].gap = (e.Now() - began).Seconds(), r.Gap
		rate[i][0], memory[i][0] = imbalance(p, r.Of)
		best := math.Inf(1)
		for range randomDivisions {
			of := make([]int, dividedModels)
			for k := range of {
				of[k] = rng.IntN(subClusters)
			}
			if a, b := imbalance(p, of); a+b < best {
				best, rate[i][1], memory[i][1] = a+b, a, b
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return out, err
	}
	gap, took := 0.0, 0.0
	for i := range draws {
		at := Set("problem", strconv.Itoa(i+1))
		out.Add(at, "ours", "imbalance of rates", "%", 100*rate[i][0])
		out.Add(at, "random", "imbalance of rates", "%", 100*rate[i][1])
		out.Add(at, "ours", "imbalance of memory", "%", 100*memory[i][0])
		out.Add(at, "random", "imbalance of memory", "%", 100*memory[i][1])
		gap, took = max(gap, seen[i].gap), max(took, seen[i].took)
	}
	out.Note("An imbalance is the difference of the largest and the smallest sub-cluster over the average (appendix A.2). Random is the best of %d random divisions; the paper's random solver, like its MILP, has ten seconds. At most %.2g percentage points from the best division, %.2g s of processor time.", randomDivisions, 100*gap, took)
	return out, nil
}

// drawModels draws so many, with exponential rates, and memory as in Symphony's table 1.
func drawModels(rng *rand.Rand, n int) []cluster.PartitionModel {
	static := []float64{99, 88, 230, 84, 170, 822}
	dynamic := []float64{2172, 1519, 3386, 2653, 2798, 6200}
	models := make([]cluster.PartitionModel, n)
	sum := 0.0
	for i := range models {
		k := rng.IntN(len(static))
		models[i] = cluster.PartitionModel{Name: strconv.Itoa(i), Rate: rng.ExpFloat64(), Static: static[k] * (1 << 20), Dynamic: dynamic[k] * (1 << 20)}
		sum += models[i].Rate
	}
	for i := range models {
		models[i].Rate *= dividedRate / sum
	}
	return models
}

// imbalance is (max - min) / average over the sub-clusters, of rates and of memory.
func imbalance(p cluster.PartitionProblem, of []int) (rate, memory float64) {
	rates, sizes := make([]float64, p.SubClusters), make([]float64, p.SubClusters)
	for i, m := range p.Models {
		rates[of[i]], sizes[of[i]] = rates[of[i]]+m.Rate, sizes[of[i]]+m.Static
	}
	spread := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return (slices.Max(x) - slices.Min(x)) * float64(len(x)) / sum
	}
	return spread(rates), spread(sizes)
}
