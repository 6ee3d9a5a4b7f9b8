package experiments

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// The changing workload (section 5.6): 24 models on 512 devices. The paper's rates are made
// from 150 hours of video that are not published; these are drawn.
const (
	changingModels  = 24
	changingDevices = 512
	changingMinutes = 20
	changingStart   = 10 * time.Second // until another device serves
	changingParts   = 4                // sub-clusters
)

// offeredShare is which part of the cluster's bound is offered at a time from 0 to 1: it rises, falls,
// and ends above what the cluster bears.
func offeredShare(x float64) float64 {
	return 0.45 - 0.3*math.Cos(4*math.Pi*min(x, 0.75)) + max(0, x-0.75)*2.2
}

// course is a model's requests by the second: its part of what is offered, which wanders.
func course(rng *rand.Rand, seconds int, part, bound float64) arrivals.Process {
	trace := &pipelines.Trace{}
	wander := 0.0
	for s := range seconds {
		wander = 0.98*wander + 0.1*rng.NormFloat64()
		rate := part * bound * offeredShare(float64(s)/float64(seconds)) * math.Exp(wander-0.12)
		trace.Seconds = append(trace.Seconds, int64(s))
		trace.Counts = append(trace.Counts, math.Max(0, math.Round(rate+math.Sqrt(rate)*rng.NormFloat64())))
	}
	return arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: trace}
}

// changing lets the cluster follow a load that changes by its own advice.
func changing(ctx context.Context, e *Env) (out Result, err error) {
	networks, devices, seconds := a100(), changingDevices, 60*changingMinutes
	if e.Quick {
		devices, seconds = 16, 120
	}
	s := DispatchSetting{Devices: devices, Shape: 1}
	for i := range changingModels {
		s.Models = append(s.Models, networks[i*len(networks)/changingModels])
	}
	rng := rand.New(rand.NewPCG(14, 0))
	var loads []simulate.Load
	for i, part := range s.weights() {
		loads = append(loads, simulate.Load{Pipeline: s.Models[i].pipeline(i), Arrivals: course(rng, seconds, part, s.Bound())})
	}
	span, parts := 60.0, changingParts
	if e.Quick {
		span, parts = 30, 2
	}
	stop := func() bool { return ctx.Err() != nil }
	scaling := size.Options{Min: devices / 16, Max: devices}
	var whole simulate.Result
	var divided Result
	err = e.Each(ctx, "A changing workload", 2, func(i int) (err error) {
		if i == 1 {
			p := &parted{setting: &s, parts: parts, models: drawModels(rand.New(rand.NewPCG(14, 1)), changingModels), scale: size.Cluster{Options: scaling}, devices: devices, stop: stop}
			p.scale.Options.Min = max(parts, scaling.Min)
			for _, l := range loads {
				p.courses = append(p.courses, l.Arrivals)
			}
			return p.play(ctx, seconds, span, &divided)
		}
		whole, err = simulate.OnCluster(loads, s.pool(), simulate.Options{
			Dispatch: adaptive, Duration: time.Duration(seconds) * time.Second, Seed: 1, Stop: stop,
			Scaling: &simulate.Scaling{Options: scaling, Start: changingStart},
		})
		return err
	})
	if err != nil {
		return out, err
	}
	addMinutes(&out, adaptive, whole.Sizes, span)
	out.Rows = append(out.Rows, divided.Rows...)
	out.Note("%d networks of the A100's, each asked for in its own wandering rate; the cluster begins with all %d devices, has %d at least, and follows its own advice (devices more or fewer within the minute), which takes %v to serve. The paper's chart prints no numbers: few requests are lost where the cluster is not overloaded, and fewer devices are used while the load is low.",
		changingModels, devices, devices/16, changingStart)
	out.Note("With sub-clusters the models are divided again every %v, by the rates of the last and with memory as in the paper's table 1; at most %d of them move at a time. Each sub-cluster has devices of its own, which are divided by the work of the last %v.", partedEpoch, partedMoves, partedSpan)
	return out, nil
}

// addMinutes adds what a cluster did in every span of so many seconds.
func addMinutes(out *Result, system string, sizes []simulate.Size, span float64) {
	for i := 0; i < len(sizes); {
		var requests, missed, paid, asked, n float64
		until := (math.Floor((sizes[i].At.Seconds()-1)/span) + 1) * span
		for ; i < len(sizes) && sizes[i].At.Seconds() <= until; i++ {
			z := sizes[i]
			requests, missed, n = requests+float64(z.Requests), missed+float64(z.Missed), n+1
			paid, asked = paid+float64(z.Paid), asked+float64(z.Advice)
		}
		at := Set("minute", until/60)
		out.Add(at, system, "requests", "1/s", requests/span)
		out.Add(at, system, "devices", "", paid/n)
		out.Add(at, system, "advice", "", asked)
		out.Add(at, system, "not in time", "%", 100*missed/max(1, requests))
	}
}
