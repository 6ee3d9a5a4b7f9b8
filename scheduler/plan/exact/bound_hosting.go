package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Few devices that many modules must share are refuted by who runs where: a branch
// and bound over the devices that each module may use. Where a module is known to
// have batches on a device, those of others there wait for one of its shortest.

const (
	mostHosts   = 5    // devices that are distinguished
	mostHosted  = 8    // modules
	mostNodes   = 1000 // times modules, of all searches for one bound
	hostPrices  = 5    // that are tried at one node
	hostBoxes   = 10   // of one split of an objective
	hostingStep = 0.7
)

// hosting is the search that refutes some devices.
type hosting struct {
	s       *devices
	devices []int // kinds
	modules []hosted
	on      []uint // by module, the devices that it may use, as bits
	placed  int    // modules before are known to use all of these

	// Where all are placed, by device: the modules that come first in the order of
	// their soonest deadlines.
	order [][]int

	// By device and module, the longest batch that it has there; 0 where that is not known.
	longest [][]time.Duration
}

// hosted is one module that must run somewhere.
type hosted struct {
	pipeline, module int
	*plan.ModuleProblem
	shortest  []time.Duration   // by kind, 0 where it cannot run
	durations [][]time.Duration // by kind, of its batches, longest first
}

// tooFew reports that no plan uses only these numbers of devices.
func (s *devices) tooFew(n []int) bool {
	h := &hosting{s: s}
	for k, count := range n {
		for range count {
			h.devices = append(h.devices, k)
		}
	}
	for i, p := range s.problems {
		for k, m := range p.Modules {
			if m.Rate == 0 {
				continue
			}
			one := hosted{pipeline: i, module: k, ModuleProblem: m}
			for k, kind := range s.kinds {
				one.shortest = append(one.shortest, m.FastestOn(kind.Hardware))
				var list []time.Duration
				for c := range m.Configs {
					if s.kindOf(&m.Configs[c]) == k {
						list = append(list, m.Configs[c].Duration)
					}
				}
				slices.SortFunc(list, func(a, b time.Duration) int { return cmp.Compare(b, a) })
				one.durations = append(one.durations, slices.Compact(list))
			}
			h.modules = append(h.modules, one)
		}
	}
	if len(h.devices) > mostHosts || len(h.modules) > mostHosted || len(h.modules) < 2 {
		return false
	}
	slices.SortStableFunc(h.modules, func(a, b hosted) int { return cmp.Compare(b.Fastest(), a.Fastest()) })
	all := uint(1)<<len(h.devices) - 1
	for range h.modules {
		h.on = append(h.on, all)
	}
	h.order, h.longest = make([][]int, len(h.devices)), make([][]time.Duration, len(h.devices))
	for j := range h.longest {
		h.longest[j] = make([]time.Duration, len(h.modules))
	}
	prices := make([]float64, len(h.devices))
	for j := range prices {
		prices[j] = 1
	}
	return h.refuted(prices)
}

// refuted reports that no placing of the modules that are left helps.
func (h *hosting) refuted(prices []float64) bool {
	if h.s.nodes += len(h.modules); h.s.nodes > mostNodes || h.s.problems[0].Options.Stopped() {
		return false
	}
	prices = slices.Clone(prices)
	if h.overloaded(prices) {
		return true
	}
	if h.placed == len(h.modules) {
		return h.ordered(prices) || h.sized(prices)
	}
	at, all := h.placed, h.on[h.placed]
	h.placed++
	defer func() { h.placed, h.on[at] = at, all }()
	for set := uint(1); set <= all; set++ {
		if h.symmetric(at, set) {
			continue
		}
		h.on[at] = set
		if !h.refuted(prices) {
			return false
		}
	}
	return true
}

// ordered reports that no order of deadlines helps: one more module is the first of
// those on some device that are not ordered yet. The order of two does not matter.
func (h *hosting) ordered(prices []float64) bool {
	for j := range h.devices {
		rest := h.rest(j)
		if len(rest) < 3 {
			continue
		}
		for _, i := range rest {
			h.order[j] = append(h.order[j], i)
			refuted := h.refuted(prices)
			h.order[j] = h.order[j][:len(h.order[j])-1]
			if !refuted {
				return false
			}
		}
		return true
	}
	return false
}

// sized reports that no choice of batches helps: one more module on a device has some batch
// there that is its longest. It has no longer ones, and those of others wait for it.
func (h *hosting) sized(prices []float64) bool {
	for j, kind := range h.devices {
		for i := range h.modules {
			if h.on[i]&(1<<j) == 0 || h.longest[j][i] > 0 || h.alone(j) {
				continue
			}
			for _, d := range h.modules[i].durations[kind] {
				h.longest[j][i] = d
				refuted := h.refuted(prices)
				h.longest[j][i] = 0
				if !refuted {
					return false
				}
			}
			return true
		}
	}
	return false
}

// alone reports that at most one module is on a device.
func (h *hosting) alone(j int) bool {
	n := 0
	for _, on := range h.on {
		n += int(on >> j & 1)
	}
	return n < 2
}

// rest are the modules that are known to be on a device and not ordered there.
func (h *hosting) rest(j int) []int {
	var list []int
	for i := range h.placed {
		if h.on[i]&(1<<j) != 0 && !slices.Contains(h.order[j], i) {
			list = append(list, i)
		}
	}
	return list
}

// wait is the least that a batch of a module waits on a device for those of others:
// for one of each whose deadline is sooner, and for the longest of those whose is
// not, which may be running. Of a module with several groups there the one that is
// due soonest counts.
func (h *hosting) wait(at, j int) time.Duration {
	kind, sum, longest := h.devices[j], time.Duration(0), time.Duration(0)
	first := slices.Index(h.order[j], at)
	waits := func(i int) bool { return i != at && h.s.waits(h.modules[at].pipeline, h.modules[i].pipeline) }
	for k, i := range h.order[j] {
		switch d := h.modules[i].shortest[kind]; {
		case !waits(i):
		case first < 0 || k < first:
			sum += d
		case k > first:
			longest = max(longest, d)
		}
	}
	for _, i := range h.rest(j) {
		if waits(i) {
			longest = max(longest, h.modules[i].shortest[kind])
		}
	}
	wait := sum + longest
	for i, d := range h.longest[j] {
		if waits(i) {
			wait = max(wait, d) // due sooner, or running already
		}
	}
	return wait
}

// symmetric reports that a set of devices is another one of the same kinds that is
// looked at, too: of devices with the same modules those in front are taken.
func (h *hosting) symmetric(at int, set uint) bool {
	for j := 1; j < len(h.devices); j++ {
		if h.devices[j] != h.devices[j-1] || set>>(j-1)&3 != 2 {
			continue
		}
		same := true
		for _, on := range h.on[:at] {
			same = same && on>>j&1 == on>>(j-1)&1
		}
		if same {
			return true
		}
	}
	return false
}

// overloaded reports that under some prices of the devices the modules cost more than
// all of these.
func (h *hosting) overloaded(prices []float64) bool {
	for t := range hostPrices {
		least, use := h.cost(prices)
		paid := 0.0
		for _, x := range prices {
			paid += x
		}
		if least > paid*(1+refutation1) {
			return true
		}
		step := hostingStep / math.Sqrt(float64(t+1))
		for j := range prices {
			prices[j] = math.Max(1e-3, prices[j]*math.Exp(step*math.Max(-1, math.Min(1, use[j]-1))))
		}
	}
	return false
}

// cost is what the modules cost at the least, and how they use the devices then.
func (h *hosting) cost(prices []float64) (least float64, use []float64) {
	use = make([]float64, len(h.devices))
	for i, p := range h.s.problems {
		runs := make([][]run, len(p.Modules))
		costs := make([]split.Cost, len(p.Modules))
		for k := range costs {
			costs[k] = split.Curves(nil)
		}
		for at := range h.modules {
			m := &h.modules[at]
			if m.pipeline != i {
				continue
			}
			runs[m.module] = h.runs(at, prices)
			var list split.Curves
			for _, r := range runs[m.module] {
				list = append(list, r.Curve)
			}
			if len(list) == 0 {
				return math.Inf(1), use
			}
			costs[m.module] = list.Lower()
		}
		sum, budgets := split.LeastRough(p, costs, hostBoxes)
		least += sum
		for k, list := range runs {
			if budgets == nil || len(list) == 0 {
				continue
			}
			best, cost := -1, math.Inf(1)
			for r := range list {
				if x, which := (split.Curves{list[r].Curve}).At(budgets[k].Seconds()); which >= 0 && x < cost {
					best, cost = r, x
				}
			}
			if best >= 0 {
				use[list[best].device] += cost / prices[list[best].device]
			}
		}
	}
	return least, use
}

// run is a way to run a module on a device.
type run struct {
	split.Curve
	device int
}

func (h *hosting) runs(at int, prices []float64) []run {
	m := &h.modules[at]
	var list []run
	for j, kind := range h.devices {
		if h.on[at]&(1<<j) == 0 || m.shortest[kind] == 0 {
			continue
		}
		wait := h.wait(at, j)
		for k := range m.Configs {
			c := &m.Configs[k]
			if most := h.longest[j][at]; h.s.kindOf(c) != kind || most > 0 && c.Duration > most {
				continue
			}
			takes := c.Duration
			if c.Concurrency == 1 {
				takes += wait
			}
			list = append(list, run{split.NewCurve(m.ModuleProblem, c, prices[j], takes.Seconds()), j})
		}
	}
	return list
}
