package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
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

// How a cluster is divided while its load changes.
const (
	partedEpoch = time.Minute   // from one division to the next
	partedSpan  = changingStart // of measures; requested devices serve after one more
	partedMoves = changingModels / 4
)

// parted is a cluster whose models are divided among sub-clusters by the rates of the last
// epoch, and whose size follows its own advice. Both are decided by what decides them where
// a cluster serves; devices go to sub-clusters in proportion to the work of the last span.
// Spans are played one after the other, each from empty queues.
type parted struct {
	setting *DispatchSetting
	courses []arrivals.Process // of each model, by the second
	models  []cluster.PartitionModel
	parts   int
	stop    func() bool

	of      []int // sub-cluster of each model
	scale   size.Cluster
	devices int
	coming  int // devices more in the next span
}

// epoch divides the models by what came in the seconds, and reports how many have moved.
func (p *parted) epoch(from, to int) (moved int, err error) {
	for i := range p.models {
		p.models[i].Rate = total(p.courses[i].Trace.Counts[from:to]) / float64(to-from)
	}
	r, err := cluster.Partition(cluster.PartitionProblem{Models: p.models, SubClusters: p.parts, Current: p.of, Moves: partedMoves})
	p.of = r.Of
	return r.Moved, err
}

func total(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}

// share divides the devices by what each sub-cluster had to do in the seconds, at least one each.
func (p *parted) share(from, to int) []int {
	work, all := make([]float64, p.parts), 0.0
	for i, n := range p.setting.Models {
		table := n.Table(largestBatch)
		w := total(p.courses[i].Trace.Counts[from:to]) * table[len(table)-1].Seconds() / float64(len(table))
		work[p.of[i]], all = work[p.of[i]]+w, all+w
	}
	out, left := make([]int, p.parts), p.devices
	for k := range out {
		out[k] = 1
		if left--; all > 0 {
			more := int(float64(p.devices-p.parts) * work[k] / all)
			out[k], left = out[k]+more, left-more
		}
	}
	for k := 0; left > 0; k, left = (k+1)%p.parts, left-1 {
		out[k]++
	}
	return out
}

// span plays the seconds, given those by which devices are divided.
func (p *parted) span(before, from, to int) (simulate.Size, error) {
	at := simulate.Size{At: time.Duration(to) * time.Second, Devices: p.devices, Paid: p.devices + p.coming}
	busy := 0.0
	for k, devices := range p.share(before, before+to-from) {
		var loads []simulate.Load
		for i, c := range p.courses {
			if counts := c.Trace.Counts[from:to]; p.of[i] == k && total(counts) > 0 {
				trace := &pipelines.Trace{Seconds: c.Trace.Seconds[:to-from], Counts: counts}
				loads = append(loads, simulate.Load{Pipeline: p.setting.Models[i].pipeline(i), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: trace}})
			}
		}
		if len(loads) == 0 {
			continue
		}
		r, err := simulate.OnCluster(loads, []simulate.Devices{{Hardware: deviceKind, Count: devices}},
			simulate.Options{Dispatch: adaptive, Duration: time.Duration(to-from) * time.Second, Seed: uint64(from), Stop: p.stop})
		if err != nil {
			return at, err
		}
		for _, one := range r.Pipelines {
			at.Requests += one.Requests
			at.Bad = max(at.Bad, size.BadRate(one.Requests, one.Requests-one.Completed))
		}
		at.Missed += r.Misses
		for _, d := range r.Devices {
			busy += min(1, d.Utilisation)
		}
	}
	at.Idle = 1 - busy/float64(p.devices)
	if p.coming == 0 {
		at.Advice = p.scale.Observe(size.Measures{End: time.Unix(int64(to), 0), Span: time.Duration(to-from) * time.Second,
			Rate: float64(at.Requests) / float64(to-from), Devices: p.devices, Bad: at.Bad, Idle: at.Idle}).Change
	}
	p.devices, p.coming = p.devices+p.coming+min(0, at.Advice), max(0, at.Advice)
	return at, nil
}

// play plays all seconds and adds what it did to the figure.
func (p *parted) play(ctx context.Context, seconds int, span float64, out *Result) error {
	step, epoch := int(partedSpan.Seconds()), int(partedEpoch.Seconds())
	var sizes []simulate.Size
	moves := make([]int, 0, seconds/step)
	for from := 0; from < seconds; from += step {
		moved, err := 0, error(nil)
		if from%epoch == 0 {
			moved, err = p.epoch(max(0, from-epoch), max(step, from))
		}
		if err != nil {
			return err
		}
		at, err := p.span(max(0, from-step), from, from+step)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sizes, moves = append(sizes, at), append(moves, moved)
	}
	addMinutes(out, fmt.Sprintf("%s, %d sub-clusters", adaptive, p.parts), sizes, span)
	for i := 0; i < len(moves); {
		until, sum := math.Floor(float64(i*step)/span)*span+span, 0.0
		for ; i < len(moves) && float64(i*step) < until; i++ {
			sum += float64(moves[i])
		}
		out.Add(Set("minute", until/60), fmt.Sprintf("%s, %d sub-clusters", adaptive, p.parts), "models moved", "", sum)
	}
	return nil
}

// A device of what is planned together; only ratios of its price matter.
const togetherPrice = 1.0

// togetherSpecs are so many networks of the a100, each at a rate that needs that share of a
// device at its best batch: as a cluster, and then each by itself.
func togetherSpecs(networks int, share float64) []scheduler.Spec {
	hardware := []pipelines.Hardware{{Name: deviceKind, Price: togetherPrice}}
	c := scheduler.Spec{Cluster: &pipelines.Cluster{Name: "all", Hardware: deviceKind}, Hardware: hardware}
	all := a100()
	for i := range networks {
		n := all[(2*i+1)*len(all)/(2*networks)]
		p := n.pipeline(i)
		table := n.Table(largestBatch)
		p.Rate = share * float64(len(table)) / table[len(table)-1].Seconds()
		p.Arrivals, p.Attainment = pipelines.ArrivalsPoisson, pipelines.DefaultAttainment
		c.Cluster.Pipelines, c.Members = append(c.Cluster.Pipelines, p.Name), append(c.Members, p)
	}
	specs := []scheduler.Spec{c}
	for i := range c.Members {
		specs = append(specs, scheduler.Spec{Pipeline: &c.Members[i], Hardware: hardware})
	}
	return specs
}

// together compares clusters with the same pipelines on devices of their own.
func together(ctx context.Context, e *Env) (out Result, err error) {
	type place struct {
		networks int
		share    float64
		is       cluster.Comparison
	}
	var all []place
	for _, n := range Part(e, []int{1, 2, 4, 8, 16, 37}, 3) {
		for _, share := range Part(e, []float64{0.1, 0.3, 1, 3}, 2) {
			all = append(all, place{networks: n, share: share})
		}
	}
	err = e.Each(ctx, "Clusters", len(all), func(i int) error {
		p := &all[i]
		found := scheduler.Solve(togetherSpecs(p.networks, p.share), scheduler.Fleet{}, scheduler.Limits{Stop: func() bool { return ctx.Err() != nil }})
		var apart []plan.Plan
		for _, one := range found[1:] {
			apart = append(apart, *one.Pipeline)
		}
		p.is = cluster.Compare(*found[0].Cluster, apart)
		if p.is.Best == "" {
			return errors.New("neither the cluster nor devices of their own serve all")
		}
		return ctx.Err()
	})
	for _, p := range all {
		at := Set("of_a_device_each", p.share, "networks", p.networks)
		out.Add(at, "cluster", "devices", "", float64(p.is.Plan.Devices))
		out.Add(at, "cluster", "no dispatcher with fewer than", "", p.is.Plan.LowerBound/togetherPrice)
		out.Add(at, "apart, exact", "devices", "", p.is.ApartCost/togetherPrice)
		out.Add(at, "apart, exact", "over the cluster", "", p.is.ApartCost/p.is.Plan.Cost)
	}
	return out, err
}
