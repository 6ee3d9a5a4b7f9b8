package experiments

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// How a cluster is divided while its load changes.
const (
	partedEpoch = time.Minute   // from one division to the next
	partedSpan  = changingStart // of measures; what is asked for serves after one more
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

// epoch divides the models by what came in the seconds, and says how many have moved.
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
