package experiments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// A square wave of load on a cluster that follows its own advice, beside somebody who knows
// the wave beforehand.
const (
	wavePeak  = 900.0 // requests/s of InceptionResNetV2, which eight devices bear
	waveStart = 5 * time.Second
	waveSpan  = 12 * time.Minute // at least, in whole periods
	waveFirst = 4                // periods in which it is learned, before that
)

// Wave is a load that jumps between the peak and a share of it.
type Wave struct {
	Period time.Duration
	Low    float64 // share of the peak
}

// Waved is what a wave did.
type Waved struct {
	Paid, Oracle float64 // devices, on average
	Changes      float64 // of the size, a period
	Lost         float64 // share of the requests
}

// Play plays the wave with so many devices at most, of which the low half needs few, and says what
// it did in its first periods and after them. The oracle has the devices that either half needs in
// time, pays for those that start, too, and keeps them where that is cheaper.
func (w Wave) Play(few, many int, stop func() bool) (first, then Waved, err error) {
	begin := waveFirst * w.Period
	span := begin + w.Period*time.Duration(math.Ceil(waveSpan.Seconds()/w.Period.Seconds()))
	rng := rand.New(rand.NewPCG(14, 1))
	trace := &pipelines.Trace{}
	for s := range int64(span.Seconds()) {
		rate := wavePeak
		if time.Duration(s)*time.Second%w.Period < w.Period/2 {
			rate *= w.Low
		}
		trace.Seconds, trace.Counts = append(trace.Seconds, s), append(trace.Counts, float64(simulate.DrawPoisson(rng, rate)))
	}
	load := simulate.Load{Pipeline: table4()[1].pipeline(0), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: trace}}
	r, err := simulate.OnCluster([]simulate.Load{load}, []simulate.Devices{{Hardware: deviceKind, Count: many}},
		simulate.Options{Duration: span, Seed: 1, Stop: stop, Scaling: &simulate.Scaling{Start: waveStart}})
	if err != nil {
		return first, then, err
	}
	k := slices.IndexFunc(r.Sizes, func(s simulate.Size) bool { return s.At > begin })
	return w.sum(r.Sizes[:k], few, many), w.sum(r.Sizes[k:], few, many), nil
}

// sum is what the wave did in spans of measures.
func (w Wave) sum(sizes []simulate.Size, few, many int) (out Waved) {
	var came, missed int64
	for _, s := range sizes {
		if s.Advice != 0 {
			out.Changes++
		}
		out.Paid += float64(s.Paid) / float64(len(sizes))
		came, missed = came+s.Requests, missed+s.Missed
	}
	out.Changes *= w.Period.Seconds() / (float64(len(sizes)) * simulate.DefaultEvery.Seconds())
	a, b := float64(few), float64(many)
	out.Oracle = min(b, (a+b)/2+(b-a)*waveStart.Seconds()/w.Period.Seconds())
	out.Lost = float64(missed) / float64(max(1, came))
	return out
}

// least is how few devices keep 99 % of that rate.
func least(rate float64, stop func() bool) (int, error) {
	for n := 1; ; n++ {
		load := simulate.Load{Pipeline: table4()[1].pipeline(0), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}
		r, err := simulate.OnCluster([]simulate.Load{load}, []simulate.Devices{{Hardware: deviceKind, Count: n}}, simulate.Options{Seed: 2, Stop: stop})
		if err != nil || r.Least() >= simulate.DefaultAttainment {
			return n, err
		}
	}
}

// waves plays square waves of several periods and heights.
func waves(ctx context.Context, e *Env) (out Result, err error) {
	periods := Part(e, []int{10, 20, 30, 60, 90, 120, 130, 150, 180, 240, 300, 450, 600}, 3)
	lows := []float64{0.5, 0.25}
	stop := func() bool { return ctx.Err() != nil }
	many, err := least(wavePeak, stop)
	if err != nil {
		return out, err
	}
	type place struct {
		Wave
		few         int
		first, then Waved
	}
	var all []place
	for _, low := range lows {
		few, err := least(low*wavePeak, stop)
		if err != nil {
			return out, err
		}
		for _, p := range periods {
			all = append(all, place{Wave: Wave{time.Duration(p) * time.Second, low}, few: few})
		}
	}
	err = e.Each(ctx, "Square waves", len(all), func(i int) (err error) {
		all[i].first, all[i].then, err = all[i].Play(all[i].few, many, stop)
		return err
	})
	for _, p := range all {
		at := Set("low", fmt.Sprintf("%g of the peak", p.Low), "period_s", p.Period.Seconds())
		out.Add(at, adaptive, "devices", "", p.then.Paid)
		out.Add(at, adaptive, "an oracle's", "", p.then.Oracle)
		out.Add(at, adaptive, "cost over the oracle's", "", p.then.Paid/p.then.Oracle)
		out.Add(at, adaptive, "changes a period", "", p.then.Changes)
		out.Add(at, adaptive, "not in time", "%", 100*p.then.Lost)
		out.Add(at, adaptive, "cost over the oracle's, first periods", "", p.first.Paid/p.first.Oracle)
		out.Add(at, adaptive, "changes a period, first periods", "", p.first.Changes)
		out.Add(at, adaptive, "not in time, first periods", "%", 100*p.first.Lost)
	}
	out.Note("InceptionResNetV2 at %g requests/s at the peak, on up to %d devices that serve %v after they are asked for; the first %d periods and those after them.", wavePeak, many, waveStart, waveFirst)
	return out, err
}
