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
	// rateTolerance is the share of a rate that counts as nothing: what is
	// left of a module's rate after whole machines took theirs is rounding
	// noise below it.
	rateTolerance = 1e-9

	// costTolerance is the share of a cost that must be saved before one plan
	// counts as cheaper than another.
	costTolerance = 1e-9

	// roundingTolerance, in nanoseconds, is how far above a whole nanosecond a
	// computed time may be and still mean that nanosecond.
	roundingTolerance = 1e-3
)

// config is a way to run a module on one machine.
type config struct {
	hardware    string
	batch       int
	concurrency int
	duration    time.Duration
	price       float64 // money per hour of one machine
	weight      float64 // price in decisions: price, or 1 when all hardware is free
	count       int     // machines that exist; 0 without limit
	whole       bool    // machines are paid for as whole devices
	memory      int64   // bytes that the module takes; 0 when unknown
	room        int64   // bytes that a machine has; 0 when unknown
}

// throughput of one full machine, in requests per second.
func (c config) throughput() float64 {
	return float64(c.concurrency) * float64(c.batch) / c.duration.Seconds()
}

// unit is the weight of serving one request per second: 1/r of the paper.
func (c config) unit() float64 { return c.weight / c.throughput() }

// configs lists how a module may run, best throughput-cost ratio first, ties
// by the shorter duration. Points measured at higher concurrency are left out
// unless the policy multiplexes.
func configs(p *Problem, m *pipelines.Module, o Options) ([]config, error) {
	free := !slices.ContainsFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Price > 0 })
	var all []config
	for _, pt := range m.Profile.Points {
		i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == pt.Hardware })
		if i < 0 || pt.Concurrency > 1 && !o.multiplexes() || len(m.Hardware) > 0 && !slices.Contains(m.Hardware, pt.Hardware) {
			continue
		}
		c := config{hardware: pt.Hardware, batch: pt.Batch, concurrency: max(1, pt.Concurrency), duration: pt.Duration, price: p.Hardware[i].Price, weight: p.Hardware[i].Price, count: p.Hardware[i].Count, whole: o.costModel() != CostProportional,
			memory: int64(pt.MemoryMiB * (1 << 20)), room: p.Hardware[i].Memory}
		if free {
			c.weight = 1
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("plan: module %q has no profile point %son hardware that it may use; profile it with `harpagon profile`, or give it a profile file that covers %s",
			m.Name, o.atConcurrency(), names(p.Hardware, m.Hardware))
	}
	all = ablate(all, o)
	slices.SortStableFunc(all, func(a, b config) int {
		return cmp.Or(cmp.Compare(a.unit(), b.unit()), cmp.Compare(a.duration, b.duration),
			cmp.Compare(a.batch, b.batch), cmp.Compare(a.concurrency, b.concurrency), cmp.Compare(a.hardware, b.hardware))
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
func ablate(all []config, o Options) []config {
	price := func(a, b config) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.hardware, b.hardware))
	}
	if o.without("hetero") {
		only := slices.MinFunc(all, price).hardware
		all = slices.DeleteFunc(all, func(c config) bool { return c.hardware != only })
	} else if o.without("hetero:dearest") {
		only := slices.MaxFunc(all, price).hardware
		all = slices.DeleteFunc(all, func(c config) bool { return c.hardware != only })
	}
	if o.without("batch") {
		least := map[string]int{}
		for _, c := range all {
			if b, ok := least[c.hardware]; !ok || c.batch < b {
				least[c.hardware] = c.batch
			}
		}
		all = slices.DeleteFunc(all, func(c config) bool { return c.batch != least[c.hardware] })
	}
	return all
}

// toDuration rounds seconds up to nanoseconds, except where they are a whole
// number of nanoseconds but for rounding noise. Times that do not fit become
// the longest that does.
func toDuration(seconds float64) time.Duration {
	ns := seconds * 1e9
	if !(ns < math.MaxInt64/4) {
		return math.MaxInt64 / 4
	}
	if r := math.Round(ns); math.Abs(ns-r) <= roundingTolerance+1e-12*ns {
		return time.Duration(r)
	}
	return time.Duration(math.Ceil(ns))
}
