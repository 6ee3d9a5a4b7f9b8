package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// MixOptions define when the sizes of queries have left the planned mix for good. Zero
// values take the defaults.
type MixOptions struct {
	// Distance is how far the shares of queries up to some size must be from
	// those planned, at the size where they differ most (the distance of
	// Kolmogorov and Smirnov); 0 means DefaultMixDistance.
	Distance float64

	Hold       time.Duration // how long the sizes must stay away; 0 means DefaultHold
	Cooldown   time.Duration // least time between two advices, and after Reset; 0 means DefaultCooldown
	MinQueries int64         // that a comparison rests on; 0 means DefaultMinQueries
}

// Defaults of MixOptions.
const (
	DefaultMixDistance = 0.10
	DefaultMinQueries  = 300
)

const (
	// mixNoise bounds the distance that chance explains: it is exceeded by
	// mixNoise/√n once in some 1,000 samples of n.
	mixNoise = 1.95

	// priorShare is the weight of the old mix within a learned one, so that
	// rare sizes that chance left out are still planned for.
	priorShare = 0.02
)

// MixDrift finds a lasting difference between the sizes of queries that come
// and those that were planned for. Like Drift it is a value that a workflow may
// keep.
//
// Sizes are gathered over stretches of half the hold time, each compared as a
// whole. Two in a row must differ: the second holds the new sizes and none from
// before the change, and is what is to be planned for.
type MixDrift struct {
	Options MixOptions
	Planned pipelines.Mix
	Seen    pipelines.Mix // of this stretch
	Since   time.Time     // when it began
	Away    bool          // the stretch before differed
	Quiet   time.Time     // no advice before
	Last    time.Time     // end of the last measures
}

// MixAdvice is what a MixDrift recommends.
type MixAdvice struct {
	Replan   bool
	Mix      pipelines.Mix // to plan for
	Distance float64       // from what was planned for so far
	At       int           // the size up to which shares differ most
	From, To float64       // share of queries up to that size, planned and seen
	Queries  float64       // that it rests on
}

// Describe gives the reason in one line.
func (a MixAdvice) Describe() string {
	return fmt.Sprintf("%.0f %% of %.0f queries have up to %d items, planned %.0f %%", 100*a.To, a.Queries, a.At, 100*a.From)
}

// NewMixDrift watches for a drift from the planned mix.
func NewMixDrift(planned pipelines.Mix, o MixOptions) MixDrift {
	return MixDrift{Options: o.withDefaults(), Planned: planned}
}

// Reset starts again after a plan for another mix took over at now.
func (d *MixDrift) Reset(planned pipelines.Mix, now time.Time) {
	*d = MixDrift{Options: d.Options.withDefaults(), Planned: planned, Quiet: now.Add(d.Options.withDefaults().Cooldown), Last: now}
}

// Observe takes the measures of the next span of time. Of measures that overlap
// the last ones, only the share of the time after that counts. Time without
// queries is no stretch.
func (d *MixDrift) Observe(m Measures) MixAdvice {
	d.Options = d.Options.withDefaults()
	begin, fresh := m.since(d.Last)
	if fresh <= 0 || len(m.Modules) == 0 {
		return MixAdvice{}
	}
	share := fresh.Seconds() / m.Span().Seconds()
	d.Last = m.To
	if len(m.Modules[0].Queries) == 0 {
		d.Seen, d.Away = nil, false
		return MixAdvice{}
	}
	if len(d.Seen) == 0 {
		d.Since = begin
	}
	for _, q := range m.Modules[0].Queries {
		d.add(q.Size, share*float64(q.Queries))
	}
	if m.To.Sub(d.Since) < d.Options.Hold/2 {
		return MixAdvice{}
	}
	return d.compare(m.To)
}

func (d *MixDrift) add(size int, n float64) {
	i, found := slices.BinarySearchFunc(d.Seen, size, func(s pipelines.Size, size int) int { return cmp.Compare(s.Size, size) })
	if !found {
		d.Seen = slices.Insert(d.Seen, i, pipelines.Size{Size: size})
	}
	d.Seen[i].Weight += n
}

// compare ends a stretch, unless it holds too few queries to compare.
func (d *MixDrift) compare(now time.Time) MixAdvice {
	n := d.Seen.Total()
	if n < float64(d.Options.MinQueries) {
		return MixAdvice{}
	}
	a := distance(d.Planned, d.Seen)
	a.Queries = n
	differs := a.Distance > d.Options.Distance && a.Distance > mixNoise/math.Sqrt(n)
	if differs && d.Away && !now.Before(d.Quiet) {
		a.Replan, a.Mix = true, learned(d.Planned, d.Seen)
		d.Quiet = now.Add(d.Options.Cooldown)
	}
	d.Seen, d.Away = nil, differs
	return a
}

// distance finds the size up to which the shares of two mixes differ most.
func distance(planned, seen pipelines.Mix) MixAdvice {
	var a MixAdvice
	var from, to float64
	all, n := planned.Total(), seen.Total()
	if all <= 0 || n <= 0 {
		return a
	}
	for i, k := 0, 0; i < len(planned) || k < len(seen); {
		size := math.MaxInt
		if i < len(planned) {
			size = planned[i].Size
		}
		if k < len(seen) {
			size = min(size, seen[k].Size)
		}
		for ; i < len(planned) && planned[i].Size == size; i++ {
			from += planned[i].Weight / all
		}
		for ; k < len(seen) && seen[k].Size == size; k++ {
			to += seen[k].Weight / n
		}
		if d := math.Abs(from - to); d > a.Distance {
			a.Distance, a.At, a.From, a.To = d, size, from, to
		}
	}
	return a
}

// learned is what was seen, with a little of what was planned.
func learned(planned, seen pipelines.Mix) pipelines.Mix {
	scale := priorShare * seen.Total() / math.Max(planned.Total(), math.SmallestNonzeroFloat64)
	d := MixDrift{Seen: slices.Clone(seen)}
	for _, s := range planned {
		if s.Weight > 0 {
			d.add(s.Size, s.Weight*scale)
		}
	}
	for i := range d.Seen { // no more digits than chance leaves
		d.Seen[i].Weight = math.Ceil(d.Seen[i].Weight*100) / 100
	}
	return d.Seen
}

func (o MixOptions) withDefaults() MixOptions {
	o.Distance = positive(o.Distance, DefaultMixDistance)
	o.Hold = positive(o.Hold, DefaultHold)
	o.Cooldown = positive(o.Cooldown, DefaultCooldown)
	o.MinQueries = positive(o.MinQueries, DefaultMinQueries)
	return o
}

// learnQueries is how many queries a kind of instance must have had until it is known.
const learnQueries = 20

// Learning finds out what queries take on the instances of a pool of which nothing was
// measured before it served. Like Drift it is a value that a workflow may keep.
type Learning struct {
	Since time.Time // when the first queries had been seen
	Quiet time.Time // no advice before
	Runs  []BatchDuration
}

// Observe takes the measures of the next span of time, and gives a profile up to the
// largest query once every kind is known, or the base is and the patience has ended; nil
// until then. A kind that is not known then has no points.
func (l *Learning) Observe(m Measures, base string, kinds []string, largest int) []pipelines.Point {
	if len(m.Modules) == 0 {
		return nil
	}
	for _, r := range m.Modules[0].Durations {
		i := slices.IndexFunc(l.Runs, func(o BatchDuration) bool { return o.Hardware == r.Hardware && o.Size == r.Size })
		if i < 0 {
			l.Runs = append(l.Runs, r)
		} else if r.Batches >= l.Runs[i].Batches {
			l.Runs[i] = r
		}
	}
	if len(l.Runs) == 0 {
		return nil
	}
	if l.Since.IsZero() {
		l.Since = m.To
	}
	known := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return l.queries(kind) < learnQueries })
	all := len(known) == len(kinds) || m.To.Sub(l.Since) >= DefaultHold
	if !all || !slices.Contains(known, base) || m.To.Before(l.Quiet) {
		return nil
	}
	l.Quiet = m.To.Add(DefaultPaceCooldown)
	var points []pipelines.Point
	for _, kind := range known {
		points = append(points, l.profile(kind, largest)...)
	}
	return points
}

func (l *Learning) queries(kind string) (n int64) {
	for _, r := range l.Runs {
		if r.Hardware == kind {
			n += r.Batches
		}
	}
	return n
}

// profile is what was seen of a kind, gone on with in a straight line up to the largest
// query; in proportion where queries of one size were seen.
func (l *Learning) profile(kind string, largest int) []pipelines.Point {
	var points []pipelines.Point
	for _, r := range l.Runs {
		if r.Hardware == kind && r.P50 > 0 {
			points = append(points, pipelines.Point{Hardware: kind, Batch: r.Size, Concurrency: 1, Duration: r.P50, Spread: max(0, r.P95-r.P50)})
		}
	}
	points = pipelines.IsotonicPoints(points)
	seen := pipelines.Profile{Points: points}.Latency(kind)
	if last := seen.Largest(); last > 0 && last < largest {
		took := seen.At(largest)
		if len(seen) == 1 {
			took = time.Duration(float64(took) * float64(largest) / float64(last))
		}
		points = append(points, pipelines.Point{Hardware: kind, Batch: largest, Concurrency: 1, Duration: took, Spread: points[len(points)-1].Spread})
	}
	return points
}

// Describe reports what was learned in one line.
func (l *Learning) Describe(points []pipelines.Point) string {
	var parts []string
	for i, p := range points {
		if i == 0 || points[i-1].Hardware != p.Hardware {
			parts = append(parts, fmt.Sprintf("%d on %s", l.queries(p.Hardware), p.Hardware))
		}
	}
	return "learned what queries take, from " + strings.Join(parts, " and ")
}
