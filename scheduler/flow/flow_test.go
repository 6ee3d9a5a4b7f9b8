package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const ms = time.Millisecond

// module takes the outputs of others.
func module(name string, from ...string) pipelines.Module {
	m := pipelines.Module{Name: name, Fanout: 1}
	for _, up := range from {
		m.Inputs = append(m.Inputs, pipelines.Binding{Name: up, From: pipelines.Ref{Module: up, Port: "y"}})
	}
	return m
}

func scatter(m pipelines.Module) pipelines.Module {
	m.Scatter = true
	return m
}

func TestCompileLeavesOutWhatNoOutputNeeds(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{module("a"), module("b", "a"), module("c", "a"), module("d")}}
	p.Outputs = []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "c"}}, {Name: "z", From: pipelines.Ref{Module: "c"}}, {Name: "x", From: pipelines.Ref{Port: "x"}}}
	g, err := Compile(&p)
	require.NoError(t, err)
	require.Len(t, g.Nodes, 2)
	assert.Equal(t, "a", g.Nodes[0].Module)
	assert.True(t, g.Nodes[1].Output)
	assert.Equal(t, 1, g.Node("c"))
	assert.Equal(t, -1, g.Node("b"))
	assert.False(t, g.Single())
	p.Outputs = nil
	g, err = Compile(&p)
	require.NoError(t, err)
	assert.Len(t, g.Nodes, 4, "without outputs all run")
}

func TestCompileRefusesCycles(t *testing.T) {
	_, err := Compile(&pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{module("a", "b"), module("b", "a")}})
	var cycle *pipelines.CycleError
	assert.ErrorAs(t, err, &cycle)
}

// TestSchedule: a feeds b and c, which d joins; the path through c is longer.
func TestSchedule(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{module("a"), module("b", "a"), module("c", "a"), module("d", "b", "c")}}
	g, err := Compile(&p)
	require.NoError(t, err)
	g.Schedule(
		map[string]time.Duration{"a": 10 * ms, "b": 5 * ms, "c": 20 * ms, "d": 40 * ms},
		map[string]KeptWindows{"b": {Least: 1 * ms, Planned: 5 * ms}, "c": {Least: 2 * ms, Planned: 3 * ms}, "d": {Least: 4 * ms, Planned: 8 * ms}},
	)
	for i, want := range []struct {
		offset time.Duration
		keep   KeptWindows
	}{
		{0, KeptWindows{Least: 6 * ms, Planned: 13 * ms}}, {10 * ms, KeptWindows{Least: 4 * ms, Planned: 8 * ms}},
		{10 * ms, KeptWindows{Least: 4 * ms, Planned: 8 * ms}}, {30 * ms, KeptWindows{}},
	} {
		assert.Equal(t, want.offset, g.Nodes[i].Offset, g.Nodes[i].Module)
		assert.Equal(t, want.keep, g.Nodes[i].Keep, g.Nodes[i].Module)
	}
	c := &g.Nodes[2]
	var r dispatch.Request
	c.SetTimes(&r, 100*ms, 200*ms, 4*ms)
	assert.Equal(t, dispatch.Request{Arrival: 110 * ms, Deadline: 196 * ms, End: 200 * ms}, r)
	c.SetTimes(&r, 100*ms, 0, 4*ms)
	assert.Equal(t, dispatch.Request{Arrival: 110 * ms}, r, "no deadline")
	c.SetTimes(&r, 0, 3*ms, 4*ms)
	assert.Equal(t, dispatch.Time(1), r.Deadline, "a deadline that has passed is none of 0")
	assert.Equal(t, 130*ms, c.Due(100*ms, 200*ms, 4*ms), "its budget")
	assert.Equal(t, 116*ms, c.Due(100*ms, 120*ms, 4*ms), "its deadline")
	assert.Equal(t, 130*ms, c.Due(100*ms, 0, 4*ms))
	assert.Equal(t, 196*ms, (&Node{}).Due(100*ms, 200*ms, 4*ms), "without a plan")
}

func Example() {
	p := pipelines.Pipeline{Name: "traffic", Modules: []pipelines.Module{
		module("detect"), scatter(module("read", "detect")), module("report", "detect", "read"),
	}}
	g, err := Compile(&p)
	if err != nil {
		fmt.Println(err)
		return
	}
	var r Request
	ready := r.Begin(g, nil)
	for i := 0; i < len(ready); i++ {
		it := ready[i]
		n := &g.Nodes[it.Node]
		if !n.Scatter {
			fmt.Println(n.Module, "runs in frame", it.Frame)
			ready = r.Complete(it, ready)
			continue
		}
		const k = 2
		var first int32
		first, ready = r.Split(it, k, ready)
		for f := first; f < first+k; f++ {
			fmt.Println(n.Module, "runs in frame", f)
			ready = r.Complete(Item{Node: it.Node, Frame: f}, ready)
		}
	}
	fmt.Println(r.Done(), r.Frames(int32(g.Node("read")), 0, nil))
	// Output:
	// detect runs in frame 0
	// read runs in frame 1
	// read runs in frame 2
	// report runs in frame 0
	// true [1 2]
}

// BenchmarkRequest runs a request through a fan-out of 2 within which another of
// 3 lies, and two joins: 12 items.
func BenchmarkRequest(b *testing.B) {
	p := pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{
		module("a"), scatter(module("b", "a")), scatter(module("c", "b")), module("d", "b", "c"), module("e", "a", "d"),
	}}
	g, err := Compile(&p)
	require.NoError(b, err)
	var r Request
	var ready []Item
	b.ReportAllocs()
	for b.Loop() {
		ready = r.Begin(g, ready[:0])
		for i := 0; i < len(ready); i++ {
			it := ready[i]
			if !g.Nodes[it.Node].Scatter {
				ready = r.Complete(it, ready)
				continue
			}
			k := int32(1) + it.Node
			var first int32
			first, ready = r.Split(it, int(k), ready)
			for f := first; f < first+k; f++ {
				ready = r.Complete(Item{Node: it.Node, Frame: f}, ready)
			}
		}
	}
	require.True(b, r.Done())
}
