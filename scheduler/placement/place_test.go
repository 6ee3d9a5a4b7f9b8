package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

const ms = time.Millisecond

func cores(n int) []Device {
	var list []Device
	for i := range n {
		list = append(list, Device{Host: "host", Name: fmt.Sprintf("cpu/%d", i), Hardware: "cpu", Memory: 1 << 30})
	}
	return list
}

// group of n machines that are fully used.
func group(batch int, d time.Duration, machines float64) plan.Group {
	return plan.Group{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: d, Machines: machines,
		Rate: machines * float64(batch) / d.Seconds(), Window: d, Period: d}
}

func planOf(modules ...plan.Module) plan.Plan {
	return plan.Plan{Pipeline: "traffic", Status: plan.Feasible, Modules: modules}
}

func traffic() Request {
	return Request{
		Pipeline: pipelines.Pipeline{Name: "traffic", Rate: 20},
		Plan: planOf(
			plan.Module{Name: "detect", Groups: []plan.Group{group(4, 40*ms, 0.5)}},
			plan.Module{Name: "vehicle", Groups: []plan.Group{group(8, 30*ms, 0.3)}},
			plan.Module{Name: "colour", Groups: []plan.Group{group(8, 20*ms, 0.2)}},
		),
		Devices: cores(2),
	}
}

func where(slots []Slot) map[string]string {
	at := map[string]string{}
	for _, s := range slots {
		at[s.Executor] = s.Device
	}
	return at
}

func TestPlaceBalancesModulesOverDevices(t *testing.T) {
	p, err := Place(traffic())
	require.NoError(t, err)
	require.Len(t, p.Slots, 3)
	assert.Equal(t, "cpu/0", p.Slots[0].Device)
	assert.Equal(t, "cpu/1", p.Slots[1].Device)
	assert.Equal(t, "cpu/1", p.Slots[2].Device)
	assert.InDelta(t, 0.5, p.Loads[0].Share, 1e-9)
	assert.InDelta(t, 0.5, p.Loads[1].Share, 1e-9)
	assert.Regexp(t, `^traffic/detect@host/cpu/0#b4-[0-9a-f]{8}$`, p.Slots[0].Executor)
}

func TestPlaceKeepsWhatRuns(t *testing.T) {
	r := traffic()
	first, err := Place(r)
	require.NoError(t, err)
	// The loads turn round: on an empty host detect would go to the other core.
	r.Plan.Modules[0].Groups[0] = group(4, 40*ms, 0.1)
	r.Plan.Modules[1].Groups[0] = group(8, 30*ms, 0.5)
	r.Actual = first.Slots
	second, err := Place(r)
	require.NoError(t, err)
	assert.Equal(t, where(first.Slots)["traffic/detect"], where(second.Slots)["traffic/detect"])
	assert.Len(t, Reconcile(second.Slots, first.Slots).Start, 0, Reconcile(second.Slots, first.Slots).Describe())
}

func TestPlaceMovesWhatNoLongerFits(t *testing.T) {
	r := traffic()
	first, err := Place(r)
	require.NoError(t, err)
	r.Plan.Modules[2].Groups[0] = group(8, 20*ms, 0.5) // 0.3 + 0.5 beside vehicle is over the bound
	r.Plan.Modules[0].Groups[0] = group(4, 40*ms, 0.2)
	r.Actual = first.Slots
	second, err := Place(r)
	require.NoError(t, err)
	for _, l := range second.Loads {
		assert.LessOrEqual(t, l.Share, DefaultMaxShare+tolerance)
	}
}

func TestPlaceSpreadsWholeMachines(t *testing.T) {
	r := traffic()
	r.Devices = cores(4)
	r.Plan = planOf(plan.Module{Name: "detect", Groups: []plan.Group{group(4, 40*ms, 2)}})
	p, err := Place(r)
	require.NoError(t, err)
	require.Len(t, p.Slots, 3, "two machines at 75 %% take three devices")
	r.MaxShare = 1
	p, err = Place(r)
	require.NoError(t, err)
	require.Len(t, p.Slots, 2)
}

func TestPlaceCutsFinerWhenDevicesAreHalfFull(t *testing.T) {
	r := traffic()
	r.Plan = planOf(plan.Module{Name: "detect", Groups: []plan.Group{group(4, 40*ms, 0.6)}})
	r.Reserved = []Slot{{Host: "host", Device: "cpu/0", Share: 0.4}, {Host: "host", Device: "cpu/1", Share: 0.4}}
	p, err := Place(r)
	require.NoError(t, err)
	require.Len(t, p.Slots, 2)
	assert.InDelta(t, 0.3, p.Slots[0].Share, 1e-9)
}

func TestDummyRequestsTakeNoDevice(t *testing.T) {
	g := plan.Group{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 50 * ms, Machines: 0.9, Rate: 2, DummyRate: 16}
	assert.InDelta(t, 0.1, (&Request{}).use(g), 1e-9)
}

// A new executor is loaded while the old one still holds its memory, so it goes
// where both fit; where nothing of that kind is left it goes ahead all the same.
func TestPlaceLeavesMemoryForWhatStillRuns(t *testing.T) {
	r := traffic()
	r.Plan.Modules = r.Plan.Modules[:1]
	r.Engines = map[string]ModuleEngine{"detect": {Model: "v1", Memory: 600 << 20}}
	first, err := Place(r)
	require.NoError(t, err)
	require.Equal(t, "cpu/0", first.Slots[0].Device)

	r.Engines["detect"] = ModuleEngine{Model: "v2", Memory: 600 << 20}
	r.Actual = first.Slots
	second, err := Place(r)
	require.NoError(t, err)
	assert.Equal(t, "cpu/1", second.Slots[0].Device, "cpu/0 has 1 GiB and holds v1")

	r.Devices = cores(1)
	second, err = Place(r)
	require.NoError(t, err)
	assert.Equal(t, "cpu/0", second.Slots[0].Device)
	assert.Equal(t, int64(600<<20), second.Loads[0].Memory)
}

func BenchmarkPlace(b *testing.B) {
	r := traffic()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Place(r)
	}
}

func TestMisfits(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"too much work", func(r *Request) { r.Plan.Modules[0].Groups[0] = group(4, 40*ms, 2.5) },
			"placement: module detect does not fit: the plan needs 3.00 devices of hardware cpu and 1.50 are free " +
				"(2 at a utilisation of at most 75 %, less what others use), so 1.50 are missing; at most 9.67 requests per second would fit"},
		{"no such hardware", func(r *Request) { r.Plan.Modules[1].Groups[0].Hardware = "v100" },
			"placement: module vehicle does not fit: there are no devices of hardware v100; start a worker on a host that has one, or plan for other hardware"},
		{"no memory", func(r *Request) { r.Engines = map[string]ModuleEngine{"colour": {Memory: 2 << 30}} },
			"placement: module colour does not fit: it needs 2048 MiB of memory and none of the 2 devices of hardware cpu has as much free"},
		{"bound", func(r *Request) { r.MaxShare = 1.5 },
			"placement: the bound on utilisation is 1.5; it must be above 0 and at most 1"},
		{"same device twice", func(r *Request) { r.Devices = append(r.Devices, r.Devices[0]) },
			"placement: device host/cpu/0 is listed twice"},
		{"infeasible plan", func(r *Request) { r.Plan.Status, r.Plan.Reason = plan.Infeasible, "too slow" },
			"placement: the plan of pipeline traffic is infeasible: too slow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := traffic()
			tt.change(&r)
			_, err := Place(r)
			assert.EqualError(t, err, tt.want)
		})
	}
}

func TestPlaceKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		first, err := Place(r)
		if err != nil {
			return
		}
		checkPlacement(t, r, first)
		r.Actual = first.Slots
		again, err := Place(r)
		require.NoError(t, err)
		c := Reconcile(again.Slots, first.Slots)
		assert.True(t, c.Empty(), "placing again what runs changes nothing, but:\n%s", c.Describe())

		r.Plan = drawPlan(t)
		if second, err := Place(r); err == nil {
			checkPlacement(t, r, second)
		}
	})
}

func checkPlacement(t *rapid.T, r Request, p Placement) {
	bound := r.MaxShare
	share, memory, names := map[place]float64{}, map[place]int64{}, map[string]bool{}
	served := map[string]float64{}
	for _, s := range append(append([]Slot(nil), p.Slots...), r.Reserved...) {
		share[s.place()] += s.Share
		memory[s.place()] += s.Memory
	}
	groups := map[string]bool{}
	for _, s := range p.Slots {
		assert.False(t, names[s.Executor], "two executors named %s", s.Executor)
		names[s.Executor] = true
		served[fmt.Sprint(s.Module, s.Group)] += s.Share
		one := fmt.Sprint(s.Module, s.Group, s.place())
		assert.False(t, groups[one], "two executors of one group on %s", s.place())
		groups[one] = true
		assert.Contains(t, s.Batches, s.Batch)
	}
	for _, d := range r.Devices {
		if !others(r, d.place()) {
			assert.LessOrEqual(t, share[d.place()], bound+1e-6)
			assert.LessOrEqual(t, memory[d.place()], d.Memory)
		}
	}
	for _, m := range r.Plan.Modules {
		for i, g := range m.Groups {
			assert.InDelta(t, r.use(g), served[fmt.Sprint(m.Name, i)], 1e-6, "all of a group is placed")
		}
	}
}

// others reports whether other pipelines alone may have filled a device.
func others(r Request, at place) bool {
	for _, s := range r.Reserved {
		if s.place() == at {
			return true
		}
	}
	return false
}

func drawRequest(t *rapid.T) Request {
	r := Request{
		Pipeline: pipelines.Pipeline{Name: "traffic", Rate: 10},
		Plan:     drawPlan(t),
		Devices:  cores(rapid.IntRange(1, 5).Draw(t, "devices")),
		MaxShare: rapid.SampledFrom([]float64{0.5, 0.75, 1}).Draw(t, "bound"),
		Engines:  map[string]ModuleEngine{},
	}
	for _, m := range r.Plan.Modules {
		r.Engines[m.Name] = ModuleEngine{Engine: "emulated", Memory: rapid.Int64Range(0, 1<<29).Draw(t, "memory")}
	}
	if rapid.Bool().Draw(t, "reserve") {
		r.Reserved = []Slot{{Executor: "other", Host: "host", Device: "cpu/0", Share: rapid.Float64Range(0, 1).Draw(t, "reserved")}}
	}
	return r
}

func drawPlan(t *rapid.T) plan.Plan {
	var modules []plan.Module
	for i := range rapid.IntRange(1, 4).Draw(t, "modules") {
		m := plan.Module{Name: fmt.Sprintf("m%d", i)}
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			m.Groups = append(m.Groups, group(rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "batch"), 20*ms, rapid.Float64Range(0, 2).Draw(t, "machines")))
		}
		modules = append(modules, m)
	}
	return planOf(modules...)
}

// TestExecutorsOfAModuleAreSpreadOverHosts: where devices are equal, a host that is lost
// does not take all executors of a module.
func TestExecutorsOfAModuleAreSpreadOverHosts(t *testing.T) {
	for _, model := range []string{"", plan.CostWhole} {
		r := Request{Plan: plan.Plan{Pipeline: "p", CostModel: model, Status: plan.Feasible}}
		for _, host := range []string{"one", "two"} {
			for i := range 3 {
				r.Devices = append(r.Devices, Device{Host: host, Name: fmt.Sprint("cpu/", i), Hardware: "cpu"})
			}
		}
		for _, module := range []string{"detect", "label"} {
			g := plan.Group{Machines: 2, Rate: 20}
			g.Hardware, g.Batch, g.Concurrency, g.Duration, g.Period = "cpu", 1, 1, 90*time.Millisecond, 50*time.Millisecond
			r.Plan.Modules = append(r.Plan.Modules, plan.Module{Name: module, Rate: 20, Groups: []plan.Group{g}})
		}
		got, err := Place(r)
		require.NoError(t, err)
		hosts := map[string][]string{}
		for _, s := range got.Slots {
			hosts[s.Module] = append(hosts[s.Module], s.Host)
		}
		for module, on := range hosts {
			require.Subset(t, on, []string{"one", "two"}, "%s, cost model %q", module, model)
		}
	}
}

// TestExecutorsOnOneHostAreSpreadAgain: what was placed while a host was away moves to it when it
// is there, one executor of a module; and nothing moves where no device is free, or none is crowded.
func TestExecutorsOnOneHostAreSpreadAgain(t *testing.T) {
	of := func(host string, devices int) (all []Device) {
		for i := range devices {
			all = append(all, Device{Host: host, Name: fmt.Sprint("cpu/", i), Hardware: "cpu"})
		}
		return all
	}
	hosts := func(p Placement) map[string]int {
		n := map[string]int{}
		for _, s := range p.Slots {
			n[s.Host]++
		}
		return n
	}
	for _, model := range []string{"", plan.CostWhole} {
		r := Request{Plan: plan.Plan{Pipeline: "p", CostModel: model, Status: plan.Feasible}, Devices: of("one", 3)}
		g := plan.Group{Machines: 3, Rate: 30}
		g.Hardware, g.Batch, g.Concurrency, g.Duration, g.Period = "cpu", 1, 1, 70*time.Millisecond, 100*time.Millisecond
		r.Plan.Modules = []plan.Module{{Name: "detect", Rate: 30, Groups: []plan.Group{g}}}
		alone, err := Place(r)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"one": 3}, hosts(alone))

		r.Actual = alone.Slots
		r.Devices = slices.Concat(of("one", 3), of("two", 2))
		both, err := Place(r)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"one": 2, "two": 1}, hosts(both), "cost model %q", model)
		require.Len(t, Reconcile(both.Slots, alone.Slots).Start, 1)

		r.Reserved = []Slot{
			{Pipeline: "other", Host: "two", Device: "cpu/0", Hardware: "cpu", Share: 0.1},
			{Pipeline: "other", Host: "two", Device: "cpu/1", Hardware: "cpu", Share: 0.1},
		}
		full, err := Place(r)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"one": 3}, hosts(full), "cost model %q", model)

		r.Reserved, r.Actual = nil, both.Slots
		again, err := Place(r)
		require.NoError(t, err)
		require.Empty(t, Reconcile(again.Slots, both.Slots).Start, "cost model %q", model)
	}
}
