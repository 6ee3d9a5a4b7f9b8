package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// kind is one sort of hardware with the configurations that a module may run
// on it.
type kind struct {
	hardware string
	weight   float64 // of one device, in decisions
	count    int     // that exist; 0 without limit
	configs  []plan.Config
}

// kinds groups configurations by hardware, cheapest first. A configuration
// that another of the same hardware beats in batch, duration and concurrency
// is left out.
func kinds(configs []plan.Config) []kind {
	var all []kind
	for _, c := range configs {
		i := slices.IndexFunc(all, func(k kind) bool { return k.hardware == c.Hardware })
		if i < 0 {
			i = len(all)
			all = append(all, kind{hardware: c.Hardware, weight: c.Weight, count: c.Count})
		}
		all[i].configs = append(all[i].configs, c)
	}
	for i := range all {
		all[i].configs = undominated(all[i].configs)
	}
	slices.SortStableFunc(all, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.hardware, b.hardware))
	})
	return all
}

func undominated(all []plan.Config) []plan.Config {
	beats := func(a, b plan.Config) bool {
		return a.Batch >= b.Batch && a.Duration <= b.Duration && a.Concurrency >= b.Concurrency
	}
	var kept []plan.Config
	for i, c := range all {
		worse := false
		for j, other := range all {
			worse = worse || i != j && beats(other, c) && (j < i || !beats(c, other))
		}
		if !worse {
			kept = append(kept, c)
		}
	}
	return kept
}

// serves is the largest share that one device of the kind can serve.
func (k kind) serves(m *plan.ModuleProblem, latency float64) float64 {
	most := 0.0
	for i := range k.configs {
		most = math.Max(most, m.Serves(&k.configs[i], latency))
	}
	return most
}

// leastLatency is the least latency that n devices of the kind promise a stream that
// they serve alone, with the configuration that all of them run, and +Inf when they
// are too few.
func (k kind) leastLatency(m *plan.ModuleProblem, n int) (latency float64, by plan.Config) {
	latency = math.Inf(1)
	for _, c := range k.configs {
		if l := m.Latency(&c, n); l < latency {
			latency, by = l, c
		}
	}
	return latency, by
}

// devicesNeeded is the least number of devices with configuration c that answer a
// stream within the budget; false when no number does.
func devicesNeeded(c *plan.Config, m *plan.ModuleProblem, budget time.Duration) (int, bool) {
	window := (budget - c.Duration).Seconds()
	if window <= 0 {
		return 0, false
	}
	n := math.Ceil(c.Interval()/m.Period(c, window) - plan.RateTolerance)
	return int(math.Max(1, n)), n < maxDevices
}

// maxDevices bounds the devices of one group.
const maxDevices = 1e9
