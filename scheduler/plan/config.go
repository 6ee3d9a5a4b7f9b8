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

// multiplexes reports whether a machine may run several batches side by side. A
// configuration (b, s, d) runs s batches of b at a time, each for d: its
// throughput is s·b/d, while a batch still collects b requests, so that Theorem
// 1 stays d + b/w.
func (o Options) multiplexes() bool { return o.Concurrency && !o.Lacks("concurrency") }

// atConcurrency is the part of a message that names the points that count.
func (o Options) atConcurrency() string {
	if o.multiplexes() {
		return ""
	}
	return "at concurrency 1 "
}

// readings of Theorem 1. It counts for every machine the rate of all machines of
// no better ratio, which for a partly used machine includes the full ones of its
// own configuration. The papers' worked examples do not: there the partly used
// machine collects what is left, and nothing else.
//
// M3 of Table I (Harpagon) shows the difference: 38 requests per second at batch
// 8 within 1 s take 1.19 machines literally, because 0.25 + 8/38 = 0.46; the
// paper uses batch 8 for one machine and batch 2 for the remaining 6 requests,
// because 0.25 + 8/6 = 1.58. Taken literally Algorithm 1 never needs a second
// configuration: the first that keeps the budget takes everything.
const (
	ReadingOwn     = "own"     // a partly used machine collects at its own rate
	ReadingLiteral = "literal" // all machines of a configuration collect together
)

// readings lists the names that Options.Reading takes.
func readings() []string { return []string{ReadingOwn, ReadingLiteral} }

// PartialWorstCase is the worst case of machines with configuration c that
// collect their batches at rate requests per second: d + b/w. One machine that is
// only partly used is the last in its order, so under either dispatch it collects
// at its own rate.
func PartialWorstCase(c Config, rate float64) time.Duration {
	return c.Duration + Collection(c.Batch, rate)
}

// Collection is how long b requests take to come at rate w.
func Collection(b int, w float64) time.Duration {
	return ToDuration(float64(b) / w)
}

// CollectRate is the rate at which a batch of c is collected just in time, 0
// when no rate is enough.
func CollectRate(c Config, budget time.Duration) float64 {
	if budget <= c.Duration {
		return 0
	}
	// A nanosecond is taken off so that rounding up the collection time again
	// cannot pass the budget.
	return float64(c.Batch) / (budget - c.Duration).Seconds() * (1 + RateTolerance)
}
