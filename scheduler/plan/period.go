package plan

import (
	"math"
	"slices"
	"time"
)

// Gap is the least time between two requests of the module, in seconds: 1/T where they
// come one by one, 0 where several may come at once.
func (m *ModuleProblem) Gap() float64 {
	if !m.Single {
		return 0
	}
	return 1 / m.Rate
}

// Period is the longest time in seconds between two batches of c that take the whole
// stream of T requests per second and whose requests wait for them no longer than
// window seconds:
//
//	min(b/T, max(gap, W))
//
// A batch holds at most b requests, and at most those that came within its window. It
// holds one, however short the window is: until the next one comes no batch is needed.
// It is 0 where there is no window.
func (m *ModuleProblem) Period(c *Config, window float64) float64 {
	if !(window > 0) {
		return 0
	}
	return math.Min(float64(c.Batch)/m.Rate, math.Max(m.Gap(), window))
}

// Serves is the share of the module's stream that one device can serve when every
// request must be answered within latency seconds, at the most, under any rule of
// dispatch: s·P/d for the Period P of windows L - d, since a device starts at most s/d
// batches a second.
func (m *ModuleProblem) Serves(c *Config, latency float64) float64 {
	return m.Period(c, latency-c.Duration.Seconds()) / c.Interval()
}

// Latency is the least, in seconds, that n devices with c promise the module's stream
// when they serve it alone; +Inf when they are too few. They start a batch every
// d/(s·n) seconds, spread evenly, and a request waits no longer than that, or not at
// all where the next one comes later.
func (m *ModuleProblem) Latency(c *Config, n int) float64 {
	switch wait := c.Interval() / float64(n); {
	case m.Rate*wait > float64(c.Batch)*(1+RateTolerance):
		return math.Inf(1)
	case wait <= m.Gap()*(1+RateTolerance):
		return c.Duration.Seconds() + LeastWindow
	default:
		return c.Duration.Seconds() + wait
	}
}

// single says, in the order of the DAG, to which modules requests come one by one: as
// the pipeline gets them, and neither scattered nor thinned out on the way.
func (p *Prepared) single() []bool {
	list := make([]bool, len(p.Modules))
	for i, name := range p.DAG.Names {
		list[i] = even(*p.Pipeline.Module(name)) && !slices.ContainsFunc(p.DAG.Up[i], func(up int) bool { return !list[up] })
	}
	return list
}

// alone is the group that takes all requests of a module when it gives each one a
// batch of its own, since the next comes no sooner than the next batch; else nil. Where
// the test takes the stream for a fluid, such a batch would have to wait until a whole
// request has come.
func (m *Module) alone() *Group {
	busy := m.busy()
	if len(busy) != 1 || busy[0].Window <= 0 {
		return nil
	}
	g, period := &busy[0], busy[0].Period.Seconds()
	if g.Period >= longest {
		period = float64(g.Batch) / (g.Rate + g.DummyRate)
	}
	rounding := 2e-9 + 1e-12/m.Rate
	if period > 1/m.Rate+rounding || period < gap(m.Rate).Seconds()-rounding {
		return nil
	}
	return g
}

// WholeGap is the Gap in whole nanoseconds, rounded up, and 36 years at the most: what is
// shorter than the longest duration is that long indeed.
func (m *ModuleProblem) WholeGap() time.Duration {
	if !m.Single {
		return 0
	}
	return gap(m.Rate)
}

// gap is that of a stream of rate requests per second that come one by one.
func gap(rate float64) time.Duration { return min(ToDuration(1/rate), longest/2) }
