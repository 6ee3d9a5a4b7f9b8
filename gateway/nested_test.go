package gateway

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// wrap makes rows for a fan-out: as many as the second element of x, each
// (x[0], row).
var wrap = kind{
	sig: pipelines.Signature{
		Inputs:  []pipelines.Port{port("x", "FP32", 2)},
		Outputs: []pipelines.Port{port("n", "FP32"), port("rows", "FP32", -1, 2)},
	},
	run: func(in []wire.Tensor) []wire.Tensor {
		x := floats(in[0])
		var rows []float32
		for i := range int(x[1]) {
			rows = append(rows, x[0], float32(i))
		}
		return []wire.Tensor{wire.FromFloat32(x[1:]).Reshape(), wire.FromFloat32(rows, int64(x[1]), 2)}
	},
}

// nested fans out within a fan-out, gathers the inner items once per outer
// item (tally; around, which has none of these) and all of them at the root (all; whole,
// which has only what was split).
func nested() pipelines.Pipeline {
	return pipelines.Pipeline{
		Name: "p", SLO: long, Inputs: []pipelines.Port{port("x", "FP32", 2)},
		Modules: []pipelines.Module{
			{Name: "outer", Inputs: []pipelines.Binding{bind("x", "", "x")}},
			{Name: "each", Scatter: true, Fanout: 2, Inputs: []pipelines.Binding{bind("x", "outer", "rows")}},
			{Name: "inner", Inputs: []pipelines.Binding{bind("x", "each", "y")}},
			{Name: "leaf", Scatter: true, Fanout: 2, Inputs: []pipelines.Binding{bind("x", "inner", "rows")}},
			{Name: "tally", Inputs: []pipelines.Binding{bind("rows", "leaf", "y"), bind("n", "inner", "n")}},
			{Name: "all", Inputs: []pipelines.Binding{bind("rows", "leaf", "y"), bind("n", "outer", "n")}},
			{Name: "around", Gather: pipelines.GatherAround, Inputs: []pipelines.Binding{bind("rows", "leaf", "y"), bind("n", "leaf", "y")}},
			{Name: "whole", Gather: "outer", Inputs: []pipelines.Binding{bind("rows", "leaf", "y"), bind("n", "inner", "n")}},
		},
		Outputs: []pipelines.Output{{Name: "leaves", From: ref("leaf", "y")}, {Name: "texts", From: ref("tally", "text")}, {Name: "all", From: ref("all", "text")}, {Name: "around", From: ref("around", "text")}, {Name: "whole", From: ref("whole", "text")}},
	}
}

func nestedSpecs() map[string]spec {
	return map[string]spec{
		"outer": {kind: wrap}, "each": {kind: addOne}, "inner": {kind: wrap}, "leaf": {kind: addOne, executors: 2, batch: 4}, "tally": {kind: count}, "all": {kind: count}, "around": {kind: count}, "whole": {kind: count},
	}
}

func TestNestedFanOutEqualsPlainLoops(t *testing.T) {
	specs := nestedSpecs()
	g, workers := serve(t, Options{}, deployment(nested(), 1, specs), specs)
	defer stop(g, workers)
	rapid.Check(t, func(t *rapid.T) {
		v, k := float32(rapid.IntRange(-1000, 1000).Draw(t, "v")), rapid.IntRange(0, 5).Draw(t, "k")
		leaves, texts := []float32{}, []string{}
		for i := range k {
			inner := i + 1 // each adds one to (v, i)
			for j := range inner {
				leaves = append(leaves, v+2, float32(j+1))
			}
			texts = append(texts, shapeText(inner))
		}
		resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(v, float32(k))})
		require.NoError(t, err)
		out := tensors(resp.Outputs)
		require.Equal(t, leaves, floats(out["leaves"]))
		require.Equal(t, []int64{int64(len(leaves) / 2), 2}, out["leaves"].Shape)
		got, err := out["texts"].Strings()
		require.NoError(t, err)
		require.Equal(t, texts, got)
		require.Equal(t, []int64{int64(k), 1}, out["texts"].Shape)
		whole, err := out["all"].Strings()
		require.NoError(t, err)
		require.Equal(t, []string{shapeText(len(leaves) / 2)}, whole)
		got, err = out["around"].Strings()
		require.NoError(t, err)
		require.Equal(t, texts, got, "once for each outer item, of inner ones only")
		got, err = out["whole"].Strings()
		require.NoError(t, err)
		require.Equal(t, whole, got, "once for all, of outer and inner ones")
		requireSum(t, resp)
	})
}

// TestFixedRows splits what always has three rows, for a module that declares its inputs and
// for one that does not.
func TestFixedRows(t *testing.T) {
	p := single(long)
	p.Inputs = []pipelines.Port{port("x", "FP32", 3, 2)}
	p.Modules[0].Scatter, p.Modules[0].Fanout = true, 3
	anything := addOne
	anything.sig.Inputs = []pipelines.Port{port("x", "")}
	for name, kind := range map[string]kind{"known": addOne, "unknown": anything} {
		t.Run(name, func(t *testing.T) {
			specs := map[string]spec{"m": {kind: kind}}
			g, workers := serve(t, Options{}, deployment(p, 1, specs), specs)
			defer stop(g, workers)
			x := []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2, 3, 4, 5, 6}, 3, 2)}}
			resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: x})
			require.NoError(t, err)
			require.Equal(t, wire.FromFloat32([]float32{2, 3, 4, 5, 6, 7}, 3, 2), resp.Outputs[0].Tensor)
		})
	}
}

// TestConditions runs one of two branches, for a request by itself and for each row of one, and
// joins what has come of it.
func TestConditions(t *testing.T) {
	share := func(m pipelines.Module, not bool) pipelines.Module {
		m.Scatter, m.Fanout, m.Most, m.Else, m.When = true, 0.5, 1, not, ref("gate", "y")
		return m
	}
	p := pipelines.Pipeline{
		Name: "p", SLO: long, Inputs: []pipelines.Port{port("x", "FP32", 2)},
		Modules: []pipelines.Module{
			{Name: "spread", Inputs: []pipelines.Binding{bind("x", "", "x")}},
			{Name: "gate", Scatter: true, Fanout: 2, Inputs: []pipelines.Binding{bind("x", "spread", "rows")}},
			share(pipelines.Module{Name: "yes", Inputs: []pipelines.Binding{bind("x", "gate", "x")}}, false),
			share(pipelines.Module{Name: "no", Inputs: []pipelines.Binding{bind("x", "gate", "x")}}, true),
			{Name: "either", Inputs: []pipelines.Binding{bind("n", "yes", "y"), bind("rows", "no", "y")}},
			{Name: "one", Inputs: []pipelines.Binding{{Name: "x", From: ref("yes", "y"), Or: ref("no", "y")}}},
		},
		Outputs: []pipelines.Output{{Name: "one", From: ref("one", "y")}, {Name: "yes", From: ref("yes", "y")}, {Name: "no", From: ref("no", "y")}, {Name: "either", From: ref("either", "text")}},
	}
	odd := kind{ // whether the second is odd
		sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", "FP32", 2)}, Outputs: []pipelines.Port{port("x", "FP32", 2), port("y", "FP32")}},
		run: func(in []wire.Tensor) []wire.Tensor {
			return []wire.Tensor{in[0], wire.FromFloat32([]float32{float32(int(floats(in[0])[1]) % 2)}).Reshape()}
		},
	}
	specs := map[string]spec{"spread": {kind: spread}, "gate": {kind: odd}, "yes": {kind: addOne}, "no": {kind: addOne}, "either": {kind: count}, "one": {kind: addOne}}
	g, workers := serve(t, Options{}, deployment(p, 1, specs), specs)
	defer stop(g, workers)
	for k, want := range map[int][2][]float32{0: {{}, {}}, 1: {{}, {8, 1}}, 4: {{8, 2, 8, 4}, {8, 1, 8, 3}}} {
		resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(k), 7)})
		require.NoError(t, err)
		out := tensors(resp.Outputs)
		require.Equal(t, want[0], floats(out["yes"]))
		require.Equal(t, want[1], floats(out["no"]))
		text, err := out["either"].Strings()
		require.NoError(t, err)
		require.Equal(t, []string{"[1 2]", "[0 2]", "[1 2]", "[0 2]"}[:k], text, "joined for every row")
		one := []float32{}
		for i := range k {
			one = append(one, 9, float32(i+2))
		}
		require.Equal(t, one, floats(out["one"]), "what has run, as it is")
		requireSum(t, resp)
	}
}

// TestRowsOfNone looks at what stands for an output of which a request has none.
func TestRowsOfNone(t *testing.T) {
	module := func(ports ...pipelines.Port) *Module {
		m := new(Module)
		if len(ports) > 0 {
			m.Announce(&pipelines.Signature{Inputs: ports, Outputs: ports})
		}
		return m
	}
	for name, c := range map[string]struct {
		made, taken *Module
		scatter     bool
		want        wire.Tensor
	}{
		"as it is made":            {module(port("y", "INT64", 4, 2)), module(port("x", "INT64", -1, 4, 2)), false, wire.Tensor{Datatype: "INT64", Shape: []int64{0, 4, 2}}},
		"as far as it is made":     {module(port("y", "FP32", -1, 2)), module(port("x", "FP32", -1, 4, 2)), false, wire.Tensor{Datatype: "FP32", Shape: []int64{0, 4, 2}}},
		"where all varies":         {module(port("y", "FP32", -1, 2)), module(port("x", "FP32", -1, -1, 2)), false, wire.Tensor{Datatype: "FP32", Shape: []int64{0, 0, 2}}},
		"as it is split again":     {module(port("y", "FP32", -1, 2)), module(port("x", "FP32", 4, 2)), true, wire.Tensor{Datatype: "FP32", Shape: []int64{0, 4, 2}}},
		"as it is taken":           {module(), module(port("x", "BYTES", -1, 2)), false, wire.Tensor{Datatype: "BYTES", Shape: []int64{0, 2}}},
		"of another rank":          {module(port("y", "FP32", -1)), module(port("x", "FP32", -1)), false, wire.Tensor{Datatype: "FP32", Shape: []int64{0, 0}}},
		"where nothing is known":   {module(), module(), false, wire.Tensor{Datatype: "FP32", Shape: []int64{0}}},
		"of a port that is unsaid": {module(port("y", "")), module(port("x", "")), false, wire.Tensor{Datatype: "FP32", Shape: []int64{0}}},
	} {
		made, taken := &Node{Module: c.made, Outs: []string{"y"}}, &Node{Module: c.taken, scatter: c.scatter}
		require.Equal(t, c.want, noRows(made, 0, taken, "x"), name)
	}
	require.Equal(t, wire.Tensor{Datatype: "FP32", Shape: []int64{0, 0}}, noRows(&Node{Module: module(port("y", "FP32", -1)), Outs: []string{"y"}}, 0, nil, ""))
}

func shapeText(n int) string { return fmt.Sprint([]int{n, 2}) }

func TestRowsThatDoNotMatchFailTheRequest(t *testing.T) {
	p := nested()
	p.Modules = p.Modules[:2]
	p.Modules[1].Inputs = []pipelines.Binding{bind("a", "outer", "rows"), bind("b", "other", "rows")}
	p.Modules = append(p.Modules, pipelines.Module{Name: "other", Inputs: []pipelines.Binding{bind("x", "", "z")}})
	p.Inputs = append(p.Inputs, port("z", "FP32", 2))
	p.Outputs = []pipelines.Output{{Name: "y", From: ref("each", "y")}}
	specs := map[string]spec{"outer": {kind: wrap}, "other": {kind: wrap}, "each": {kind: join}}
	g, workers := serve(t, Options{}, deployment(p, 1, specs), specs)
	defer stop(g, workers)
	z := func(k float32) []wire.NamedTensor {
		return append(vector(1, 3), wire.NamedTensor{Name: "z", Tensor: wire.FromFloat32([]float32{1, k}, 2)})
	}
	_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: z(3)})
	require.NoError(t, err)
	_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: z(2)})
	require.ErrorIs(t, err, wire.ErrInternal)
	require.ErrorContains(t, err, "must have the same number")
}
