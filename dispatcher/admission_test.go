package dispatcher

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// serviceOf has one module, a batch of which takes 40 of the 100 ms that there are.
func serviceOf(name string) placement.Deployment {
	const took, slo = 40 * time.Millisecond, 100 * time.Millisecond
	of := placement.Deployment{Generation: 1}
	of.Pipeline = pipelines.Pipeline{
		Name: name, SLO: slo, Rate: 10, Dispatch: "tc",
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
		Modules: []pipelines.Module{{Name: "m", Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}},
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
	}
	of.Pipeline.Modules[0].Profile.Points = []pipelines.Point{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: took}}
	of.Plan.Modules = []plan.Module{{Name: "m", Rate: 10, Budget: slo, Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: took, Machines: 1, Rate: 10}}}}
	of.Slots = []placement.Slot{{Executor: "e-" + name, Pipeline: name, Module: "m", Hardware: "cpu", Batch: 1, Duration: took, Share: 1}}
	return of
}

func introduce(d *Dispatcher, service, device string) {
	d.Register(Introduction{Name: "e-" + service, Service: service, Host: "h", Device: device, Hardware: "cpu"}, true)
}

func TestServicesCountForEachOtherOnceTheyShareADevice(t *testing.T) {
	now := dispatch.Time(1)
	d := New(Options{Now: func() dispatch.Time { return now }, Record: -1})
	var all []*Generation
	for _, name := range []string{"a", "b"} {
		introduce(d, name, "of "+name)
		g, err := d.Compile(serviceOf(name))
		require.NoError(t, err)
		d.Install(g, nil, nil)
		all = append(all, g)
	}
	a, b := all[0], all[1]
	deadline := now + 200*time.Millisecond
	for d.Admit(a, now, deadline) { // until a takes no more in
		require.Less(t, now, dispatch.Time(time.Second))
	}
	require.True(t, d.Admit(b, now, deadline), "b has a device of its own")
	require.True(t, d.Peek(b, now, deadline), "which could do one more")

	introduce(d, "b", "of a")
	assert.False(t, d.Peek(b, now, deadline), "what a has before it is before b, too")
	now += 300 * time.Millisecond
	r := &Request{Generation: b, Arrival: 1, Deadline: deadline}
	r.End()
	d.Leave(r, now, admission.Late)
	assert.True(t, d.Peek(b, now, now+200*time.Millisecond), "what came before they shared a device is counted out all the same")
}

// TestAccountsAreJoinedUnderLoad has services begin to share devices while requests come.
func TestAccountsAreJoinedUnderLoad(t *testing.T) {
	d := New(Options{Now: func() dispatch.Time { return 1 }, Record: -1})
	const services = 8
	var under sync.WaitGroup
	for i := range services {
		name := fmt.Sprint(i)
		introduce(d, name, name)
		g, err := d.Compile(serviceOf(name))
		require.NoError(t, err)
		d.Install(g, nil, nil)
		under.Go(func() {
			for range 2000 {
				r := &Request{Generation: g, Arrival: 1, Deadline: 1 + 100*time.Millisecond}
				if d.Admit(g, 1, r.Deadline) {
					r.End()
					d.Leave(r, 1, admission.InTime)
				}
			}
		})
	}
	for i := range services {
		introduce(d, fmt.Sprint(i), fmt.Sprint(i/4))
		introduce(d, fmt.Sprint(i), "one")
	}
	under.Wait()
	var roots []*account
	for i := range services {
		a := d.Serving(fmt.Sprint(i)).account.lock()
		a.mu.Unlock()
		roots = append(roots, a)
	}
	for _, a := range roots {
		assert.Same(t, roots[0], a)
	}
}
