package placement

import (
	"fmt"
	"math"
	"slices"
)

// explain says why an item found no device, and what rate would fit.
func (r *Request) explain(it item, bound float64) *MisfitError {
	e := &MisfitError{Module: it.module, Hardware: it.config.Hardware}
	kind := fmt.Sprintf("devices of hardware %s", it.config.Hardware)
	loads := r.empty(bound, false).loads
	loads = slices.DeleteFunc(loads, func(l Load) bool { return l.Device.Hardware != it.config.Hardware })
	if len(loads) == 0 {
		e.Reason = fmt.Sprintf("there are no %s; start a worker on a host that has one, or plan for other hardware", kind)
		return e
	}
	need, taken := 0.0, 0.0
	for _, d := range r.demands(1) {
		if d.config.Hardware == it.config.Hardware {
			need += d.share
		}
	}
	room := false
	for _, l := range loads {
		taken += math.Min(bound, l.Share)
		room = room || l.Device.Memory == 0 || l.Memory+it.memory <= l.Device.Memory
	}
	if !room {
		e.Reason = fmt.Sprintf("it needs %d MiB of memory and none of the %d %s has as much free", mebibytes(it.memory), len(loads), kind)
		return e
	}
	e.Rate = r.largestRate(bound)
	have := float64(len(loads))*bound - taken
	if missing := need - have; missing > tolerance {
		e.Reason = fmt.Sprintf("the plan needs %s %s and %s are free (%d at a utilisation of at most %s, less what others use), so %s are missing",
			devices(need), kind, devices(have), len(loads), percent(bound), devices(missing))
	} else {
		e.Reason = fmt.Sprintf("a share of %s is too large for what is left of any of the %d %s", percent(it.share), len(loads), kind)
	}
	return e
}

// largestRate is the highest rate of the pipeline that fits, by bisection over
// shares scaled in proportion, to one part in a thousand and rounded down.
func (r *Request) largestRate(bound float64) float64 {
	const steps = 12
	low, high := 0.0, 1.0
	for range steps {
		mid := (low + high) / 2
		if _, misfit := r.pack(r.demands(mid), bound); misfit == nil {
			low = mid
		} else {
			high = mid
		}
	}
	rate := low * r.Pipeline.Rate
	if !(rate > 0) {
		return 0
	}
	digits := math.Pow(10, 2-math.Floor(math.Log10(rate)))
	return math.Floor(rate*digits) / digits
}
