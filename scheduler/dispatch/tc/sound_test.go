package tc

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// TestTCKeepsSoundPlans closes the circle: a plan that passes the
// processor-demand test, played with even arrivals at its rate on as many
// executors as it has machines, answers every request within the SLO. Requests
// are counted singly, so one inter-arrival time is allowed on top. Dummy
// requests are not sent: the windows end such batches.
func TestTCKeepsSoundPlans(t *testing.T) {
	sound, several := 0, 0
	keeps := func(t *rapid.T) {
		p := policies.Solve(drawModule(t), plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional})
		if p.Status == plan.Infeasible || !p.Sound {
			return
		}
		m := p.Modules[0]
		sound++
		if len(m.Groups) > 1 {
			several++
		}
		d := newDriver(t, optionsOf(m))
		for i, g := range m.Groups {
			for range int(math.Ceil(g.Machines - 1e-9)) {
				id := dispatch.ExecutorID(len(d.execs))
				d.execs[id] = &fakeExecutor{group: int32(i)}
				d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: int32(i)})
			}
		}
		gap := time.Duration(float64(time.Second) / m.Rate)
		for k := range 400 {
			at := time.Duration(float64(k) / m.Rate * float64(time.Second))
			d.advance(at)
			d.nextID++
			r := dispatch.Request{ID: d.nextID, Arrival: at, Deadline: at + p.SLO + gap}
			d.waiting[r.ID] = r
			d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
		}
		d.advance(d.now + 10*p.SLO)
		for id, how := range d.ended {
			require.Equal(t, "started", how, "request %d of %s", id, p.Describe())
		}
		require.Empty(t, d.waiting)
	}
	for n := 0; n < 10 && several == 0; n++ { // one draw of sixteen has several groups
		rapid.Check(t, keeps)
	}
	t.Logf("%d sound plans, %d of them with several groups", sound, several)
	require.NotZero(t, several)
}

func optionsOf(m plan.Module) Options {
	var o Options
	for _, g := range m.Groups {
		o.Groups = append(o.Groups, Group{Batch: g.Batch, Window: g.Window, Duration: g.Duration, Period: g.Period})
	}
	return o
}

func drawModule(t *rapid.T) plan.Problem {
	var points []pipelines.Point
	fixed := rapid.Float64Range(5, 60).Draw(t, "fixed")
	each := rapid.Float64Range(0.5, 20).Draw(t, "each")
	for b := 1; b <= 32; b *= 2 {
		points = append(points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: time.Duration((fixed + each*float64(b)) * 1e6)})
	}
	return plan.Problem{
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
		Pipeline: pipelines.Pipeline{
			Name: "p", Rate: rapid.Float64Range(1, 300).Draw(t, "rate"),
			SLO:     time.Duration(rapid.IntRange(50, 1000).Draw(t, "slo")) * ms,
			Modules: []pipelines.Module{{Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: points}}},
		},
	}
}
