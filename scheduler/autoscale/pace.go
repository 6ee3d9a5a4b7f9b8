package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// PaceOptions define when the durations of batches have left the profile for good. Zero
// values take the defaults.
type PaceOptions struct {
	Slower   float64       // times the profile that a batch takes; 0 means DefaultSlower
	Faster   float64       // the same for a profile that was measured too slow; 0 means DefaultFaster
	Least    time.Duration // differences below do not count; 0 means DefaultLeast
	Hold     time.Duration // how long batches must be slower; twice that for faster; 0 means DefaultPaceHold
	Cooldown time.Duration // least time between two advices on a module, and after Reset; 0 means DefaultPaceCooldown
	Step     float64       // most that one advice changes a duration by, as a factor; 0 means DefaultStep
}

// Defaults of PaceOptions. They heal a profile that is wrong by a factor of two
// within a minute, and by four within two.
const (
	DefaultSlower       = 1.25
	DefaultFaster       = 0.80
	DefaultLeast        = 500 * time.Microsecond
	DefaultPaceHold     = 15 * time.Second
	DefaultPaceCooldown = 20 * time.Second
	DefaultStep         = 2.0
)

// paceBatches is the least that the median of a size rests on, and paceShare
// the share of requests whose batches must be slower, or faster, for the module
// to be.
const (
	paceBatches = 3
	paceShare   = 0.5
)

// Pace finds modules whose batches have deviated from their profile for long. Like Drift it
// is a value that a workflow may keep.
//
// The recent median of every batch size is compared with the profile. A batch is slower
// when it takes longer than Slower times the smallest profiled batch that is at least as
// large, which is what a dispatcher takes it for; it is faster when it takes less than
// Faster times the largest profiled batch that is at most as large. A module is slower or
// faster when the batches of most of its requests are. Batches of executors that run
// several at a time are compared with the profile at that concurrency; a batch that happens
// to run alone and is faster does not count. What executors take while they serve is what a
// plan must count on, with everything that the machine does besides, so the advice has the
// median, and not the low quantile by which a profile is first measured.
type Pace struct {
	Options PaceOptions
	Modules []ModulePace // in order of module and hardware
	Last    time.Time    // end of the last measures
}

// ModulePace is the state of one module on one kind of hardware.
type ModulePace struct {
	Module   string
	Hardware string
	Side     int       // +1 slower than the profile, -1 faster, 0 as profiled
	Since    time.Time // when it went to that side
	Quiet    time.Time // no advice before
	Deviation
}

// Deviation is a measured duration beside the profiled one, of the batch size
// that stands for the module: that of most requests.
type Deviation struct {
	Size     int // requests
	Measured time.Duration
	Profiled time.Duration

	Concurrency int `json:",omitempty"` // batches at a time, where they are several
}

// PaceAdvice is what a Pace recommends of one module: to plan with Points.
type PaceAdvice struct {
	Module   string
	Hardware string
	Slower   bool
	Held     time.Duration
	Deviation
	Points []pipelines.Point // the module's profile, as measured now
}

// Describe gives the reason in one line.
func (a PaceAdvice) Describe() string {
	size := fmt.Sprint("batches of ", a.Size)
	if a.Concurrency > 1 {
		size += fmt.Sprintf(", %d at a time,", a.Concurrency)
	}
	return fmt.Sprintf("%s takes %s, profiled %s (%s on %s, for %v)",
		a.Module, quantity.Duration(a.Measured), quantity.Duration(a.Profiled), size, a.Hardware, a.Held.Round(time.Second))
}

// NewPace watches for batches that take another time than profiled.
func NewPace(o PaceOptions) Pace { return Pace{Options: o.withDefaults()} }

// Reset starts again after another plan, or the same with other profiles, took
// over at now.
func (p *Pace) Reset(now time.Time) {
	o := p.Options.withDefaults()
	for i := range p.Modules {
		m := &p.Modules[i]
		*m = ModulePace{Module: m.Module, Hardware: m.Hardware, Since: now, Quiet: now.Add(o.Cooldown)}
	}
	p.Last = now
}

// Observe takes the measures of the next span of time and the modules as they
// were planned, with their profiles.
func (p *Pace) Observe(m Measures, modules []pipelines.Module) []PaceAdvice {
	p.Options = p.Options.withDefaults()
	if _, fresh := m.since(p.Last); fresh <= 0 {
		return nil
	}
	p.Last = m.To
	var advice []PaceAdvice
	for _, module := range modules {
		seen := m.Module(module.Name)
		if seen == nil {
			continue
		}
		for _, runs := range byHardware(seen.Durations) {
			if a, ok := p.module(m, module, runs[0].Hardware, runs); ok {
				advice = append(advice, a)
			}
		}
	}
	slices.SortFunc(advice, func(a, b PaceAdvice) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Hardware, b.Hardware))
	})
	return advice
}

// Void are the modules that have been slower than planned for the hold time: the
// promise of the plan does not hold.
func (p *Pace) Void() []PaceAdvice {
	o := p.Options.withDefaults()
	var all []PaceAdvice
	for _, m := range p.Modules {
		if held := p.Last.Sub(m.Since); m.Side > 0 && held >= o.Hold {
			all = append(all, PaceAdvice{Module: m.Module, Hardware: m.Hardware, Slower: true, Held: held, Deviation: m.Deviation})
		}
	}
	return all
}

// module judges one module on one kind of hardware.
func (p *Pace) module(m Measures, module pipelines.Module, hardware string, runs []BatchDuration) (PaceAdvice, bool) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r BatchDuration) bool {
		return len(curve(module.Profile.Points, hardware, r.Concurrency)) == 0
	})
	if len(runs) == 0 {
		return PaceAdvice{}, false
	}
	side, deviation := p.side(module.Profile.Points, hardware, runs)
	at := p.of(module.Name, hardware, m.From)
	at.Deviation = deviation
	if at.Side != side {
		at.Side, at.Since = side, m.To
	}
	held := m.To.Sub(at.Since)
	hold := p.Options.Hold
	if side < 0 {
		hold *= 2
	}
	if side == 0 || held < hold || m.To.Before(at.Quiet) {
		return PaceAdvice{}, false
	}
	at.Quiet = m.To.Add(p.Options.Cooldown)
	return PaceAdvice{
		Module: module.Name, Hardware: hardware, Slower: side > 0, Held: held, Deviation: deviation,
		Points: p.heal(module.Profile.Points, hardware, runs),
	}, true
}

// of finds or makes the state of a module.
func (p *Pace) of(module, hardware string, now time.Time) *ModulePace {
	i, found := slices.BinarySearchFunc(p.Modules, ModulePace{Module: module, Hardware: hardware}, func(a, b ModulePace) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Hardware, b.Hardware))
	})
	if !found {
		p.Modules = slices.Insert(p.Modules, i, ModulePace{Module: module, Hardware: hardware, Since: now})
	}
	return &p.Modules[i]
}

// side reports where most requests are, and what the size of most of those takes.
func (p *Pace) side(all []pipelines.Point, hardware string, runs []BatchDuration) (int, Deviation) {
	var requests [3]int64 // faster, as profiled, slower
	var most [3]int64
	var deviation [3]Deviation
	for _, r := range runs {
		points := curve(all, hardware, r.Concurrency)
		d := Deviation{Size: r.Size, Measured: r.P50, Profiled: covers(points, r.Size), Concurrency: r.Concurrency}
		side := 0
		switch low := within(points, r.Size); {
		case p.beyond(r.P50, d.Profiled):
			side = 1
		case low > 0 && r.Concurrency <= 1 && p.below(r.P50, low):
			side, d.Profiled = -1, low
		}
		n := r.Batches * int64(r.Size)
		requests[side+1] += n
		if n > most[side+1] {
			most[side+1], deviation[side+1] = n, d
		}
	}
	total := float64(requests[0] + requests[1] + requests[2])
	for _, side := range []int{1, -1} {
		if float64(requests[side+1]) > paceShare*total {
			return side, deviation[side+1]
		}
	}
	for _, side := range []int{0, 1, -1} {
		if requests[side+1] > 0 {
			return 0, deviation[side+1]
		}
	}
	return 0, Deviation{}
}

func (p *Pace) beyond(took, profiled time.Duration) bool {
	return float64(took) > p.Options.Slower*float64(profiled) && took-profiled > p.Options.Least
}

func (p *Pace) below(took, profiled time.Duration) bool {
	return float64(took) < p.Options.Faster*float64(profiled) && profiled-took > p.Options.Least
}

// heal is the profile with the durations on one kind of hardware as measured:
// each is multiplied by the ratio of measured to expected duration of the nearest measured
// size, by Step at most. That ratio counts less with distance: n octaves away, its root of
// order 1+n is taken. The spread goes half of the way to the one measured. Larger batches
// still take no less than smaller ones; where an estimate contradicts what was measured, it
// gives way.
func (p *Pace) heal(all []pipelines.Point, hardware string, runs []BatchDuration) []pipelines.Point {
	healed := slices.Clone(all)
	curves := make(map[int][]pipelines.Point)
	for _, r := range runs {
		curves[max(r.Concurrency, 1)] = curve(all, hardware, r.Concurrency)
	}
	for i := range healed {
		at := &healed[i]
		points := curves[max(at.Concurrency, 1)]
		if at.Hardware != hardware || len(points) == 0 {
			continue
		}
		r := nearest(beside(runs, at.Concurrency), at.Batch)
		factor := float64(r.P50) / math.Max(1, float64(expected(points, r.Size)))
		factor = min(max(factor, 1/p.Options.Step), p.Options.Step)
		factor = math.Pow(factor, 1/(1+math.Abs(math.Log2(float64(r.Size)/float64(at.Batch)))))
		at.Duration = max(time.Microsecond, time.Duration(float64(at.Duration)*factor).Round(time.Microsecond))
		noise := float64(r.P95-r.P50) / math.Max(1, float64(r.P50)) * float64(at.Duration)
		at.Spread = ((at.Spread + time.Duration(noise)) / 2).Round(time.Microsecond)
		at.Others = 0 // measured while it serves, whatever others do
	}
	between(healed, hardware, runs)
	return pipelines.IsotonicPoints(healed)
}

// between keeps points whose own size was not measured between those of the
// measured sizes around them.
func between(healed []pipelines.Point, hardware string, runs []BatchDuration) {
	measured := func(p pipelines.Point) bool {
		return slices.ContainsFunc(beside(runs, p.Concurrency), func(r BatchDuration) bool { return r.Size == p.Batch })
	}
	unmeasured := func(p pipelines.Point) bool { return !measured(p) }
	curves := make(map[int][]pipelines.Point)
	for _, r := range runs {
		curves[max(r.Concurrency, 1)] = pipelines.IsotonicPoints(slices.DeleteFunc(curve(healed, hardware, r.Concurrency), unmeasured))
	}
	for i := range healed {
		at := &healed[i]
		if at.Hardware != hardware || measured(*at) {
			continue
		}
		known := curves[max(at.Concurrency, 1)]
		for _, k := range known {
			if k.Batch < at.Batch {
				at.Duration = max(at.Duration, k.Duration)
			} else {
				at.Duration = min(at.Duration, k.Duration)
			}
		}
	}
}

// byHardware divides the sizes that have enough batches, in order of hardware.
func byHardware(all []BatchDuration) [][]BatchDuration {
	enough := slices.DeleteFunc(slices.Clone(all), func(d BatchDuration) bool { return d.Batches < paceBatches || d.Size < 1 || d.P50 <= 0 })
	slices.SortStableFunc(enough, func(a, b BatchDuration) int { return cmp.Compare(a.Hardware, b.Hardware) })
	var kinds [][]BatchDuration
	for begin := 0; begin < len(enough); {
		end := begin + 1
		for end < len(enough) && enough[end].Hardware == enough[begin].Hardware {
			end++
		}
		kinds = append(kinds, enough[begin:end])
		begin = end
	}
	return kinds
}

// beside are the runs of executors that run so many batches at a time.
func beside(runs []BatchDuration, concurrency int) (all []BatchDuration) {
	for _, r := range runs {
		if max(r.Concurrency, 1) == max(concurrency, 1) {
			all = append(all, r)
		}
	}
	return all
}

// curve is the profile on one kind of hardware, so many batches at a time, smallest
// batch first.
func curve(points []pipelines.Point, hardware string, concurrency int) []pipelines.Point {
	var all []pipelines.Point
	for _, p := range points {
		if p.Hardware == hardware && max(p.Concurrency, 1) == max(concurrency, 1) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b pipelines.Point) int { return cmp.Compare(a.Batch, b.Batch) })
	return all
}

// Covers is the time that a profile takes a batch for: that of the smallest
// profiled batch that is at least as large, or of the largest; 0 where nothing is
// profiled on the hardware.
func Covers(profile []pipelines.Point, hardware string, size, concurrency int) time.Duration {
	points := curve(profile, hardware, concurrency)
	if len(points) == 0 {
		return 0
	}
	return covers(points, size)
}

// covers is the time of the smallest profiled batch that is at least as large;
// of the largest where there is none.
func covers(points []pipelines.Point, size int) time.Duration {
	for _, p := range points {
		if p.Batch >= size {
			return p.Duration
		}
	}
	return points[len(points)-1].Duration
}

// within is the time of the largest profiled batch that is at most as large; 0
// where there is none.
func within(points []pipelines.Point, size int) time.Duration {
	var d time.Duration
	for _, p := range points {
		if p.Batch <= size {
			d = p.Duration
		}
	}
	return d
}

// expected lies on a straight line between the two profiled batches around a
// size.
func expected(points []pipelines.Point, size int) time.Duration {
	for i, p := range points {
		switch {
		case p.Batch < size:
		case p.Batch == size || i == 0:
			return p.Duration
		default:
			last := points[i-1]
			share := float64(size-last.Batch) / float64(p.Batch-last.Batch)
			return last.Duration + time.Duration(share*float64(p.Duration-last.Duration))
		}
	}
	return points[len(points)-1].Duration
}

// nearest is the measured size that is nearest in proportion; of two as near the
// smaller one.
func nearest(runs []BatchDuration, batch int) BatchDuration {
	return slices.MinFunc(runs, func(a, b BatchDuration) int {
		away := func(r BatchDuration) float64 { return math.Abs(math.Log(float64(r.Size) / float64(batch))) }
		return cmp.Or(cmp.Compare(away(a), away(b)), cmp.Compare(a.Size, b.Size))
	})
}

func (o PaceOptions) withDefaults() PaceOptions {
	if !(o.Slower > 1) {
		o.Slower = DefaultSlower
	}
	if !(o.Faster > 0 && o.Faster < 1) {
		o.Faster = DefaultFaster
	}
	if !(o.Step > 1) {
		o.Step = DefaultStep
	}
	o.Least = positive(o.Least, DefaultLeast)
	o.Hold = positive(o.Hold, DefaultPaceHold)
	o.Cooldown = positive(o.Cooldown, DefaultPaceCooldown)
	return o
}

// AtLeast raises points to those of a file, where there are any.
func AtLeast(points, file []pipelines.Point) []pipelines.Point {
	all := slices.Clone(points)
	for i := range all {
		if least := DurationOf(file, all[i]); all[i].Duration < least {
			k := slices.IndexFunc(file, sameConfiguration(all[i]))
			all[i] = file[k]
		}
	}
	return all
}

// DurationOf is the duration in points of the configuration that at has; 0 for none.
func DurationOf(points []pipelines.Point, at pipelines.Point) time.Duration {
	if i := slices.IndexFunc(points, sameConfiguration(at)); i >= 0 {
		return points[i].Duration
	}
	return 0
}

func sameConfiguration(a pipelines.Point) func(pipelines.Point) bool {
	return func(b pipelines.Point) bool {
		return a.Hardware == b.Hardware && a.Batch == b.Batch && max(a.Concurrency, 1) == max(b.Concurrency, 1)
	}
}
