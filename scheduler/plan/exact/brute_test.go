package exact

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// No packing of a few modules that brute force finds costs less than the bound, nor
// less than the plan but by what a search may miss.
func TestSharedBoundAgainstBruteForce(t *testing.T) {
	certified, closer, plans := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawForBrute(t)
		out := solve(p, exactShared)
		best := bruteShared(&p)
		if out.Status == plan.Infeasible {
			require.True(t, math.IsInf(best, 1), "brute force has %v, the plan: %s", best, out.Reason)
			return
		}
		require.LessOrEqual(t, out.LowerBound, best*(1+1e-9), out.Describe())
		plans++
		if out.Status == plan.Optimal {
			certified++
		}
		if out.Cost <= best*(1+1e-9) {
			closer++
		}
	})
	t.Logf("of %d plans %d are certified, %d cost no more than brute force finds", plans, certified, closer)
	assert.Greater(t, certified, plans/2)
	assert.GreaterOrEqual(t, closer, plans*97/100)
}

// drawForBrute draws a chain of two or three modules on one or two kinds.
func drawForBrute(t *rapid.T) plan.Problem {
	p := plan.Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: 1.7}}[:rapid.IntRange(1, 2).Draw(t, "kinds")]}
	p.Pipeline = pipelines.Pipeline{Name: "p", Rate: float64(rapid.IntRange(1, 60).Draw(t, "rate"))}
	fastest := time.Duration(0)
	for i := range rapid.IntRange(2, 3).Draw(t, "modules") {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		if i > 0 {
			m.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: fmt.Sprintf("m%d", i-1), Port: "y"}}}
		}
		base := rapid.IntRange(1, 20).Draw(t, "duration")
		for k, h := range p.Hardware {
			for _, batch := range []int{1, 4} {
				d := time.Duration(base*(2+batch)/(2+k)+1) * time.Millisecond
				m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: h.Name, Batch: batch, Concurrency: 1, Duration: d})
			}
		}
		fastest += m.Profile.Points[0].Duration
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	p.Pipeline.SLO = fastest * time.Duration(rapid.IntRange(12, 60).Draw(t, "looser")) / 10
	return p
}

// bruteShared tries budgets in tenths, all ways to put whole modules on devices that
// they share, or on as many of their own as they need, all configurations, and
// deadlines in eighths of the budgets.
func bruteShared(p *plan.Problem) float64 {
	const tenths, eighths = 10, 8
	n, best := len(p.Pipeline.Modules), math.Inf(1)
	budgets := make([]float64, n)
	device := make([]int, n)
	var place func(i, devices int)
	place = func(i, devices int) {
		if i == n {
			cost := 0.0
			for d := range devices {
				cost += bruteDevice(p, budgets, device, d, eighths)
			}
			best = math.Min(best, cost)
			return
		}
		for device[i] = 0; device[i] <= devices; device[i]++ {
			place(i+1, max(devices, device[i]+1))
		}
		device[i] = -1
	}
	var divide func(i, left int)
	divide = func(i, left int) {
		if i == n-1 {
			budgets[i] = p.Pipeline.SLO.Seconds() * float64(left) / tenths
			place(0, 0)
			return
		}
		for x := 1; x <= left-(n-1-i); x++ {
			budgets[i] = p.Pipeline.SLO.Seconds() * float64(x) / tenths
			divide(i+1, left-x)
		}
	}
	divide(0, tenths)
	return best
}

// brutePeriod is how long a batch of so many is collected within a window; one request
// needs none.
func brutePeriod(p *plan.Problem, batch int, window float64) float64 {
	return math.Max(1, math.Min(float64(batch), p.Pipeline.Rate*window)) / p.Pipeline.Rate
}

// bruteDevice is what the modules on one device cost, or one module's own devices.
func bruteDevice(p *plan.Problem, budgets []float64, device []int, d int, eighths int) float64 {
	var on []int
	for i := range device {
		if device[i] == d {
			on = append(on, i)
		}
	}
	best := math.Inf(1)
	for _, h := range p.Hardware {
		if len(on) == 1 {
			for _, pt := range p.Pipeline.Modules[on[0]].Profile.Points {
				if window := budgets[on[0]] - pt.Duration.Seconds(); pt.Hardware == h.Name && window > 0 {
					best = math.Min(best, h.Price*math.Max(1, math.Ceil(pt.Duration.Seconds()/brutePeriod(p, pt.Batch, window)-1e-9)))
				}
			}
			continue
		}
		var tasks []demand.Task
		var visit func(k int) bool
		visit = func(k int) bool {
			if k == len(on) {
				return demand.NonPreemptive(tasks).Sound
			}
			for _, pt := range p.Pipeline.Modules[on[k]].Profile.Points {
				if pt.Hardware != h.Name {
					continue
				}
				for x := 1; x <= eighths; x++ {
					due := math.Min(budgets[on[k]]*float64(x)/float64(eighths), budgets[on[k]]-plan.LeastWindow)
					if due < pt.Duration.Seconds() {
						continue
					}
					tasks = append(tasks[:k], demand.Task{Duration: pt.Duration.Seconds(), Period: brutePeriod(p, pt.Batch, budgets[on[k]]-due), Deadline: due})
					if visit(k + 1) {
						return true
					}
				}
			}
			return false
		}
		if h.Price < best && visit(0) {
			best = h.Price
		}
	}
	return best
}
