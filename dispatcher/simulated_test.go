package dispatcher

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestDispatchersDecideAsSimulated plays drawn plans on a dispatcher whose clock, gateway and
// devices are virtual: every batch runs when, where and as large as the simulator states.
func TestDispatchersDecideAsSimulated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) plan.Problem{plantest.Draw, plantest.DrawConcurrent}).Draw(t, "draw")
		problem := draw(t)
		p := &problem.Pipeline
		p.Modules = p.Modules[:min(3, len(p.Modules))]
		for i := range p.Modules {
			p.Modules[i].Fanout = 1
		}
		p.Rate = max(1, p.Rate)
		solved := policies.Solve(problem, plan.Options{
			CostModel: rapid.SampledFrom([]string{plan.CostShared, plan.CostWhole, plan.CostProportional}).Draw(t, "cost model"),
		})
		if solved.Status == plan.Infeasible {
			return
		}
		load := simulate.Load{Pipeline: *p, Arrivals: arrivals.Process{Kind: arrivals.Replay}}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		even, at := rapid.Bool().Draw(t, "even"), 0.0
		rate := p.Rate * rapid.SampledFrom([]float64{0.5, 1, 1.5}).Draw(t, "load")
		for len(load.Arrivals.Stamps) < 300 {
			load.Arrivals.Stamps = append(load.Arrivals.Stamps, dispatch.Time(1+at*1e9))
			if even {
				at += 1 / rate
			} else {
				at += rng.ExpFloat64() / rate
			}
		}
		admits := rapid.Bool().Draw(t, "admission")
		var expected, got []simulated
		result, err := simulate.OnPlans([]simulate.Load{load}, []plan.Plan{solved}, simulate.Options{
			Duration: time.Hour * 24 * 365, Eager: true, Admission: admits,
			Observer: simulate.Observer{Batch: func(b simulate.Batch) {
				expected = append(expected, simulated{b.Module, b.Device, len(b.Requests), b.Begin, b.End})
			}},
		})
		require.NoError(t, err)
		v := newVirtual(t, p, &solved)
		v.admits = admits
		v.ran = func(b simulated) { got = append(got, b) }
		v.play(load.Arrivals.Stamps)
		for _, all := range [][]simulated{expected, got} {
			slices.SortFunc(all, func(a, b simulated) int {
				return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.device, b.device), cmp.Compare(a.module, b.module), cmp.Compare(a.end, b.end))
			})
		}
		for i := range min(len(expected), len(got)) {
			require.Equal(t, expected[i], got[i], "batch %d", i)
		}
		require.Len(t, got, len(expected))
		of := result.Pipelines[0]
		require.Equal(t, [...]int64{of.Completed, of.Late, of.Dropped, of.Refused}, [...]int64{v.completed, v.late, v.dropped, v.refused})
	})
}

// simulated is a batch that has run.
type simulated struct {
	module     string
	device     int
	size       int
	begin, end dispatch.Time
}

// virtual is a gateway, workers and a clock for a dispatcher.
type virtual struct {
	t      *rapid.T
	d      *Dispatcher
	g      *Generation
	now    dispatch.Time
	admits bool

	agenda  []happening // in order
	devices []*virtualDevice
	slots   map[string]int // device by executor
	lanes   map[string]int // before those of a module
	ran     func(simulated)

	completed, late, dropped, refused int64
}

// happening is what is to happen: ends of batches come first, then requests, then timers.
type happening struct {
	at        dispatch.Time
	kind, key int
	do        func()
}

func (v *virtual) at(h happening) {
	i, _ := slices.BinarySearchFunc(v.agenda, h, func(a, b happening) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key))
	})
	v.agenda = slices.Insert(v.agenda, i, h)
}

// virtualTimer is a Timer of a station.
type virtualTimer struct {
	*virtual
	key int
	f   func()
}

func (t *virtualTimer) Stop() bool {
	before := len(t.agenda)
	t.agenda = slices.DeleteFunc(t.agenda, func(h happening) bool { return h.kind == 2 && h.key == t.key })
	return len(t.agenda) < before
}

func (t *virtualTimer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.virtual.at(happening{max(t.now, t.now+d), 2, t.key, t.f})
	return was
}

// virtualDevice runs batches of one executor at a time, those due first before others.
type virtualDevice struct {
	number, running int
	owner           *Executor
	queue           []*Batch
}

// newVirtual places a plan on as many devices as the simulator makes for it, in its order.
func newVirtual(t *rapid.T, p *pipelines.Pipeline, of *plan.Plan) *virtual {
	v := &virtual{t: t, slots: map[string]int{}, lanes: map[string]int{}}
	timers, lanes := 0, 0
	v.d = New(Options{Now: func() dispatch.Time { return v.now }, Record: -1, NewTimer: func(f func()) Timer {
		timers++
		return &virtualTimer{v, timers, f}
	}})
	deployed := placement.Deployment{Generation: 1, Pipeline: *p, Plan: *of}
	type group struct {
		module string
		index  int
	}
	shared := map[group]int{}
	for _, d := range of.Devices {
		at := v.device()
		for _, task := range d.Tasks {
			shared[group{task.Module, task.Group}] = at
		}
	}
	graph, err := flow.Compile(p)
	require.NoError(t, err)
	for _, node := range graph.Nodes {
		m := plantest.Module(of, node.Module)
		v.lanes[m.Name] = lanes
		for i, g := range m.Groups {
			machines := int(math.Ceil(g.Machines - 1e-6))
			at, ok := shared[group{m.Name, i}]
			if ok = ok && g.Deadline > 0; ok || g.Rides {
				machines = 1
			}
			for k := range machines {
				if !ok {
					at = v.device()
				}
				name := fmt.Sprint(m.Name, "/", i, "/", k)
				v.slots[name] = at
				lanes += max(1, g.Concurrency)
				deployed.Slots = append(deployed.Slots, placement.Slot{
					Executor: name, Pipeline: p.Name, Module: m.Name, Group: i, Hardware: g.Hardware,
					Batch: g.Batch, Concurrency: g.Concurrency, Window: g.Window, Duration: g.Duration,
				})
			}
		}
	}
	v.g, err = v.d.Compile(deployed)
	require.NoError(t, err)
	v.d.Install(v.g, nil, nil)
	for _, s := range deployed.Slots {
		v.d.Register(Introduction{
			Name: s.Executor, Service: p.Name, Host: "h", Device: fmt.Sprint(v.slots[s.Executor]), Hardware: s.Hardware, Concurrency: s.Concurrency,
		}, true)
	}
	return v
}

func (v *virtual) device() int {
	v.devices = append(v.devices, &virtualDevice{number: len(v.devices)})
	return len(v.devices) - 1
}

func (v *virtual) play(stamps []time.Duration) {
	for i, at := range stamps {
		v.at(happening{at, 1, i, func() { v.arrive(at) }})
	}
	for events := 0; len(v.agenda) > 0; events++ {
		require.Less(v.t, events, 1_000_000)
		next := v.agenda[0]
		v.agenda = v.agenda[1:]
		v.now = next.at
		next.do()
	}
}

// virtualRequest is a request that the gateway holds.
type virtualRequest struct {
	Request
	flow  flow.Request
	items []*Item
}

func (v *virtual) arrive(at dispatch.Time) {
	deadline := at + v.g.Deployment.Pipeline.SLO
	if v.admits && !v.d.Admit(v.g, v.now, deadline) {
		v.refused++
		return
	}
	r := &virtualRequest{Request: Request{Generation: v.g, Gateway: v, Arrival: at, Deadline: deadline}}
	v.launch(r, r.flow.Begin(v.g.Graph, nil))
}

func (v *virtual) launch(r *virtualRequest, ready []flow.Item) {
	for _, it := range ready {
		item := &Item{Request: &r.Request, Holder: r, Index: it.Node, Size: 1}
		r.items = append(r.items, item)
		v.d.Arrive(item)
	}
	if r.flow.Done() && !r.Over() {
		how := admission.InTime
		if v.completed++; v.now > r.Deadline {
			v.completed, v.late, how = v.completed-1, v.late+1, admission.Late
		}
		v.over(r, how)
	}
}

func (v *virtual) over(r *virtualRequest, how admission.End) {
	r.End()
	if v.admits {
		v.d.Leave(&r.Request, v.now, how)
	}
}

// Drop implements Gateway.
func (v *virtual) Drop(it *Item, why Drop) {
	r := it.Holder.(*virtualRequest)
	if r.Over() {
		return
	}
	if why == Full {
		v.refused++
	} else {
		v.dropped++
	}
	v.over(r, admission.GivenUp)
	for _, other := range slices.Backward(r.items) {
		v.d.Cancel(other)
	}
}

// Start implements Gateway.
func (v *virtual) Start(b *Batch, _ []*Item, _ int) {
	d := v.devices[v.slots[b.Executor.Name]]
	d.queue = append(d.queue, b)
	v.run(d)
}

func (v *virtual) run(d *virtualDevice) {
	for len(d.queue) > 0 {
		i := 0
		for k, b := range d.queue {
			if b.Due < d.queue[i].Due {
				i = k
			}
		}
		b := d.queue[i]
		if d.running > 0 && (d.owner != b.Executor || d.running >= b.Executor.concurrency) {
			return
		}
		d.queue = slices.Delete(d.queue, i, i+1)
		d.owner = b.Executor
		d.running++
		group := policyGroups(&v.g.Deployment, b.station.module)[b.group]
		took, begun := group.Duration, v.now
		if group.Durations != nil {
			took = group.Durations[len(b.Items)-1]
		}
		v.at(happening{v.now + took, 0, v.lanes[b.station.module] + int(b.lane), func() { v.end(d, b, begun) }})
	}
}

func (v *virtual) end(d *virtualDevice, b *Batch, begun dispatch.Time) {
	v.ran(simulated{b.station.module, d.number, len(b.Items), begun, v.now})
	items := slices.Clone(b.Items)
	d.running--
	v.d.Done(b.Executor.Take(b.ID), Report{Compute: v.now - begun})
	v.run(d)
	for _, it := range items {
		if r := it.Holder.(*virtualRequest); !r.Over() {
			v.launch(r, r.flow.Complete(flow.Item{Node: it.Index}, nil))
		}
	}
}
