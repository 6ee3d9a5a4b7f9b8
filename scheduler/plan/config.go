package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

const (
	// RateTolerance is the share of a rate that counts as nothing: what is
	// left of a module's rate after whole machines took theirs is rounding
	// noise below it.
	RateTolerance = 1e-9

	// CostTolerance is the share of a cost that must be saved before one plan
	// counts as cheaper than another.
	CostTolerance = 1e-9

	// roundingTolerance, in nanoseconds, is how far above a whole nanosecond a
	// computed time may be and still mean that nanosecond.
	roundingTolerance = 1e-3
)

// Config is a way to run a module on one machine.
type Config struct {
	Hardware     string
	Batch        int
	Concurrency  int
	Duration     time.Duration
	Price        float64 // money per hour of one machine
	Weight       float64 // price in decisions: price, or 1 when all hardware is free
	Count        int     // machines that exist; 0 without limit
	Whole        bool    // machines are paid for as whole devices
	Memory       int64   // bytes that the module takes; 0 when unknown
	DeviceMemory int64   // bytes that a machine has; 0 when unknown
}

// Throughput of one full machine, in requests per second.
func (c Config) Throughput() float64 {
	return float64(c.Concurrency) * float64(c.Batch) / c.Duration.Seconds()
}

// Unit is the weight of serving one request per second: 1/r of the paper.
func (c Config) Unit() float64 { return c.Weight / c.Throughput() }

// configs lists how a module may run, best throughput-cost ratio first, ties
// by the shorter duration. Points measured at higher concurrency are left out
// unless the policy multiplexes.
func configs(p *Problem, m *pipelines.Module, o Options) ([]Config, error) {
	free := !slices.ContainsFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Price > 0 })
	var all []Config
	for _, pt := range m.Profile.Points {
		i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == pt.Hardware })
		if i < 0 || pt.Concurrency > 1 && !o.multiplexes() || len(m.Hardware) > 0 && !slices.Contains(m.Hardware, pt.Hardware) {
			continue
		}
		c := Config{Hardware: pt.Hardware, Batch: pt.Batch, Concurrency: max(1, pt.Concurrency), Duration: pt.Duration, Price: p.Hardware[i].Price, Weight: p.Hardware[i].Price, Count: p.Hardware[i].Count, Whole: o.costModel() != CostProportional,
			Memory: int64(pt.MemoryMiB * (1 << 20)), DeviceMemory: p.Hardware[i].Memory}
		if free {
			c.Weight = 1
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("plan: module %q has no profile point %son hardware that it may use; profile it with `harpagon profile`, or give it a profile file that covers %s",
			m.Name, o.atConcurrency(), names(p.Hardware, m.Hardware))
	}
	all = ablate(all, o)
	slices.SortStableFunc(all, func(a, b Config) int {
		return cmp.Or(cmp.Compare(a.Unit(), b.Unit()), cmp.Compare(a.Duration, b.Duration),
			cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(a.Hardware, b.Hardware))
	})
	return all, nil
}

func names(hardware []pipelines.Hardware, only []string) string {
	s := ""
	for _, h := range hardware {
		if len(only) > 0 && !slices.Contains(only, h.Name) {
			continue
		}
		if s != "" {
			s += " or "
		}
		s += fmt.Sprintf("%q", h.Name)
	}
	if s == "" {
		return "declared hardware (there is none)"
	}
	return s
}

// ablate keeps one kind of hardware, or one batch size a kind, when the
// options switch the choice off.
func ablate(all []Config, o Options) []Config {
	price := func(a, b Config) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Hardware, b.Hardware))
	}
	if o.Lacks("hetero") {
		only := slices.MinFunc(all, price).Hardware
		all = slices.DeleteFunc(all, func(c Config) bool { return c.Hardware != only })
	} else if o.Lacks("hetero:dearest") {
		only := slices.MaxFunc(all, price).Hardware
		all = slices.DeleteFunc(all, func(c Config) bool { return c.Hardware != only })
	}
	if o.Lacks("batch") {
		least := map[string]int{}
		for _, c := range all {
			if b, ok := least[c.Hardware]; !ok || c.Batch < b {
				least[c.Hardware] = c.Batch
			}
		}
		all = slices.DeleteFunc(all, func(c Config) bool { return c.Batch != least[c.Hardware] })
	}
	return all
}

// ToDuration rounds seconds up to nanoseconds, except where they are a whole
// number of nanoseconds but for rounding noise. Times that do not fit become
// the longest that does.
func ToDuration(seconds float64) time.Duration {
	ns := seconds * 1e9
	if !(ns < longest) {
		return longest
	}
	if r := math.Round(ns); math.Abs(ns-r) <= roundingTolerance+1e-12*ns {
		return time.Duration(r)
	}
	return time.Duration(math.Ceil(ns))
}

const longest = 1 << 61 // which a float64 holds, too

// WholeNanoseconds rounds down.
func WholeNanoseconds(seconds float64) time.Duration {
	return time.Duration(math.Floor(math.Max(0, seconds)*1e9 + roundingTolerance))
}

// Interval is the least time in seconds between the starts of two batches on one
// device: a device that runs s batches side by side starts one every d/s.
func (c Config) Interval() float64 { return c.Duration.Seconds() / float64(c.Concurrency) }

// LeastWindow is the shortest window that a plan can state, in seconds.
const LeastWindow = 1e-9
