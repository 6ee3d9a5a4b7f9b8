package onnxruntime

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/wire"
)

// netOf makes a model of nodes.
func netOf(inputs, outputs []*onnx.ValueInfo, nodes ...*onnx.Node) *onnx.Model {
	m := onnx.NewModel(13)
	m.Graph = &onnx.Graph{Name: "test", Inputs: inputs, Outputs: outputs, Nodes: nodes}
	return m
}

func node(op, in, out string, attributes ...*onnx.Attribute) *onnx.Node {
	return &onnx.Node{Op: op, Inputs: []string{in}, Outputs: []string{out}, Attributes: attributes}
}

func to(kind onnx.DataType) *onnx.Attribute {
	return &onnx.Attribute{Name: "to", Kind: onnx.KindInt, Int: int64(kind)}
}

// both loads a module in this process and in a child.
func both(t *testing.T, m pipelines.Module, largest int, check func(t *testing.T, in executors.Instance)) {
	t.Helper()
	needs(t)
	for name, e := range map[string]executors.Engine{
		"here": New(Options{}), "child": InChild(child.New(Name, child.Options{}), Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			in, err := e.Load(t.Context(), executors.Model{Module: m, Batches: []int{1, largest}, MaxBatch: largest})
			require.NoError(t, err)
			defer in.Close()
			check(t, in)
		})
	}
}

func moduleOf(t *testing.T, m *onnx.Model, inputs ...pipelines.Binding) pipelines.Module {
	return pipelines.Module{Name: "m", Model: write(t, m), Inputs: inputs}
}

// TestHalves runs networks whose inputs and outputs are FP16 or BF16, with all sizes known and
// with sizes that only the run shows.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		name string
		kind onnx.DataType
		from func([]float32, ...int64) wire.Tensor
		dims []int64
	}{
		{"FP16", onnx.Float16, wire.FromFloat16, []int64{-1, 4}},
		{"FP16 of open size", onnx.Float16, wire.FromFloat16, []int64{-1, -1}},
		{"BF16", onnx.BFloat16, wire.FromBFloat16, []int64{-1, 4}},
	} {
		m := netOf([]*onnx.ValueInfo{onnx.Declare("x", c.kind, c.dims...)},
			[]*onnx.ValueInfo{onnx.Declare("y", c.kind, c.dims...), onnx.Declare("z", onnx.Float, c.dims...), onnx.Declare("w", c.kind, c.dims...)},
			node("Cast", "x", "z", to(onnx.Float)), node("Relu", "z", "positive"), node("Cast", "positive", "y", to(c.kind)),
			node("Neg", "z", "negative"), node("Cast", "negative", "w", to(c.kind)))
		t.Run(c.name, func(t *testing.T) {
			both(t, moduleOf(t, m), 3, func(t *testing.T, in executors.Instance) {
				for _, n := range []int{1, 3, 2, 3} {
					var items [][]wire.Tensor
					for i := range n {
						items = append(items, []wire.Tensor{c.from([]float32{1, -2, float32(i), 0.5}, 4)})
					}
					got, err := in.Run(t.Context(), items)
					require.NoError(t, err)
					for i := range got {
						assert.Equal(t, c.from([]float32{1, 0, float32(i), 0.5}, 4), got[i][0])
						assert.Equal(t, wire.FromFloat32([]float32{1, -2, float32(i), 0.5}, 4), got[i][1])
						assert.Equal(t, []int64{4}, got[i][2].Shape)
					}
				}
				if c.dims[1] < 0 { // several sizes, also in one batch
					got, err := in.Run(t.Context(), [][]wire.Tensor{{c.from([]float32{-1, 7})}, {c.from([]float32{5})}, {c.from([]float32{2, -3})}})
					require.NoError(t, err)
					for i, want := range [][]float32{{0, 7}, {5}, {2, 0}} {
						assert.Equal(t, c.from(want), got[i][0])
					}
				}
			})
		})
	}
}

func TestStrings(t *testing.T) {
	m := netOf([]*onnx.ValueInfo{onnx.Declare("words", onnx.String, -1, 2)},
		[]*onnx.ValueInfo{onnx.Declare("same", onnx.String, -1, 2)}, node("Identity", "words", "same"))
	both(t, moduleOf(t, m), 3, func(t *testing.T, in executors.Instance) {
		for _, n := range []int{3, 1, 2} {
			var items [][]wire.Tensor
			for i := range n {
				items = append(items, []wire.Tensor{wire.FromStrings([]string{"wörd", []string{"", "x", "long text"}[i]}, 2)})
			}
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			for i := range got {
				assert.Equal(t, items[i][0], got[i][0])
			}
		}
		_, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromStrings([]string{"a\x00b", ""}, 2)}})
		require.Equal(t, wire.CodeInvalid, code(t, err))
		assert.ErrorContains(t, err, "a byte of 0")
	})
}

// scaled multiplies audio with a scalar of whole numbers, and adds a mean that has
// no batch.
func scaled() *onnx.Model {
	return netOf(
		[]*onnx.ValueInfo{onnx.Declare("audio", onnx.Float, -1, 3), onnx.Declare("sr", onnx.Int64)},
		[]*onnx.ValueInfo{onnx.Declare("y", onnx.Float, -1, 3), onnx.Declare("rate", onnx.Float)},
		node("Cast", "sr", "rate", to(onnx.Float)),
		&onnx.Node{Op: "Mul", Inputs: []string{"audio", "rate"}, Outputs: []string{"y"}})
}

func TestAScalarThatRequestsBring(t *testing.T) {
	m := moduleOf(t, scaled())
	m.BatchAxis = map[string]int{"rate": pipelines.NoBatchAxis}
	both(t, m, 4, func(t *testing.T, in executors.Instance) {
		assert.Equal(t, []int64{}, in.Signature().Inputs[1].Shape)
		var items [][]wire.Tensor
		rates := []int64{2, 3, 2, 5} // those that agree run together
		for i, rate := range rates {
			items = append(items, []wire.Tensor{wire.FromFloat32([]float32{1, 2, float32(i)}, 3), wire.FromInt64([]int64{rate}).Reshape()})
		}
		for range 2 {
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			for i, rate := range rates {
				f := float32(rate)
				assert.Equal(t, wire.FromFloat32([]float32{f, 2 * f, f * float32(i)}, 3), got[i][0])
				assert.Equal(t, wire.FromFloat32([]float32{f}).Reshape(), got[i][1])
			}
		}
	})
}

func TestConstantInputs(t *testing.T) {
	sr := pipelines.Binding{Name: "sr", Value: 16000.0}
	audio := pipelines.Binding{Name: "audio", From: build.FromInput("audio")}
	for name, dims := range map[string][]int64{"scalar": {}, "one element": {1}, "one element each": {-1, 1}} {
		t.Run(name, func(t *testing.T) {
			model := scaled()
			model.Graph.Inputs[1] = onnx.Declare("sr", onnx.Int64, dims...)
			model.Graph.Outputs = model.Graph.Outputs[:1]
			both(t, moduleOf(t, model, audio, sr), 4, func(t *testing.T, in executors.Instance) {
				require.Len(t, in.Signature().Inputs, 1, "the constant is not sent")
				items, raw := batchOf(rand.New(rand.NewPCG(1, 1)), 4, 3)
				got, err := in.Run(t.Context(), items)
				require.NoError(t, err)
				for i := range got {
					have, err := got[i][0].Float32s()
					require.NoError(t, err)
					for k := range have {
						assert.Equal(t, 16000*raw[i][k], have[k])
					}
				}
			})
		})
	}
	needs(t)
	_, err := New(Options{}).Load(t.Context(), executors.Model{Module: moduleOf(t, scaled(), audio, pipelines.Binding{Name: "sr", Value: "fast"}), Batches: []int{1}})
	require.Equal(t, wire.CodeInvalid, code(t, err))
	assert.ErrorContains(t, err, `input "sr", which is INT64 []: the constant holds fast where INT64 is taken`)
}

// recurrent has the interface of a voice detector: a state with the batch in the
// middle, and a scalar sampling rate.
func recurrent(batch int64) *onnx.Model {
	return netOf(
		[]*onnx.ValueInfo{
			onnx.Declare("input", onnx.Float, batch, 512),
			onnx.Declare("state", onnx.Float, 2, batch, 128),
			onnx.Declare("sr", onnx.Int64),
		},
		[]*onnx.ValueInfo{onnx.Declare("output", onnx.Float, batch, 1), onnx.Declare("stateN", onnx.Float, 2, batch, 128)},
		node("ReduceMax", "input", "top", &onnx.Attribute{Name: "axes", Kind: onnx.KindInts, Ints: []int64{1}}),
		node("Cast", "sr", "rate", to(onnx.Float)),
		&onnx.Node{Op: "Mul", Inputs: []string{"top", "rate"}, Outputs: []string{"output"}},
		&onnx.Node{Op: "Add", Inputs: []string{"state", "output"}, Outputs: []string{"stateN"}}, // along the batch
	)
}

func TestAVoiceDetector(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	bindings := []pipelines.Binding{
		{Name: "input", From: build.FromInput("input")}, {Name: "state", From: build.FromInput("state")}, {Name: "sr", Value: 16000.0},
	}
	requests := func(n int, lead ...int64) (items [][]wire.Tensor, audio, state [][]float32) {
		for range n {
			a, s := weights(rng, 512), weights(rng, 2*128)
			shape := []int64{2, 128}
			if len(lead) > 0 {
				shape = []int64{2, 1, 128}
			}
			items = append(items, []wire.Tensor{wire.FromFloat32(a, append(slices.Clone(lead), 512)...), wire.FromFloat32(s, shape...)})
			audio, state = append(audio, a), append(state, s)
		}
		return items, audio, state
	}
	check := func(t *testing.T, got [][]wire.Tensor, audio, state [][]float32) {
		for i := range got {
			want := 16000 * slices.Max(audio[i])
			have, err := got[i][0].Float32s()
			require.NoError(t, err)
			assert.Equal(t, []float32{want}, have)
			have, err = got[i][1].Float32s()
			require.NoError(t, err)
			for k := range have {
				assert.InDelta(t, state[i][k]+want, have[k], 1e-2)
			}
		}
	}
	t.Run("unbatched", func(t *testing.T) {
		m := moduleOf(t, recurrent(1), bindings...)
		m.Unbatched = true
		both(t, m, 1, func(t *testing.T, in executors.Instance) {
			assert.Equal(t, []pipelines.Port{
				{Name: "input", Datatype: wire.FP32, Shape: []int64{1, 512}}, {Name: "state", Datatype: wire.FP32, Shape: []int64{2, 1, 128}},
			}, in.Signature().Inputs)
			for range 3 {
				items, audio, state := requests(1, 1)
				got, err := in.Run(t.Context(), items)
				require.NoError(t, err)
				assert.Equal(t, []int64{1, 1}, got[0][0].Shape)
				assert.Equal(t, []int64{2, 1, 128}, got[0][1].Shape)
				check(t, got, audio, state)
			}
		})
		_, err := New(Options{}).Load(t.Context(), executors.Model{Module: m, Batches: []int{2}})
		assert.ErrorContains(t, err, "one request at a time (batching = false)")
	})
	t.Run("batched along dimension 1", func(t *testing.T) {
		m := moduleOf(t, recurrent(-1), bindings...)
		m.BatchAxis = map[string]int{"state": 1, "stateN": 1}
		both(t, m, 5, func(t *testing.T, in executors.Instance) {
			assert.Equal(t, []int64{2, 128}, in.Signature().Inputs[1].Shape)
			for _, n := range []int{1, 5, 2, 5} {
				items, audio, state := requests(n)
				got, err := in.Run(t.Context(), items)
				require.NoError(t, err)
				check(t, got, audio, state)
			}
		})
	})
	t.Run("a fixed batch that is not full", func(t *testing.T) {
		m := moduleOf(t, recurrent(4), bindings...)
		m.BatchAxis = map[string]int{"state": 1, "stateN": 1}
		both(t, m, 4, func(t *testing.T, in executors.Instance) {
			items, audio, state := requests(3)
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			check(t, got, audio, state)
		})
	})
	t.Run("wrong axes", func(t *testing.T) {
		needs(t)
		m := moduleOf(t, recurrent(-1), bindings...)
		for axes, want := range map[string]string{"states": `batch_axis names "states", but the network has only input, state, sr, output, stateN`, "input": "has dimensions 0 to 1 only"} {
			m.BatchAxis = map[string]int{axes: 2}
			_, err := New(Options{}).Load(t.Context(), executors.Model{Module: m, Batches: []int{1}})
			require.Equal(t, wire.CodeInvalid, code(t, err))
			assert.ErrorContains(t, err, want)
		}
	})
}

// TestADetectorOfFixedBatch has the interface of a YOLO exported with batch 1.
func TestADetectorOfFixedBatch(t *testing.T) {
	m := netOf([]*onnx.ValueInfo{onnx.Declare("images", onnx.Float, 1, 3, 640, 640)},
		[]*onnx.ValueInfo{onnx.Declare("output0", onnx.Float, 1, 84, 8400)},
		node("ReduceMax", "images", "top", &onnx.Attribute{Name: "axes", Kind: onnx.KindInts, Ints: []int64{2, 3}},
			&onnx.Attribute{Name: "keepdims", Kind: onnx.KindInt, Int: 0}),
		node("ReduceMax", "top", "most", &onnx.Attribute{Name: "axes", Kind: onnx.KindInts, Ints: []int64{1}}),
		&onnx.Node{Op: "Expand", Inputs: []string{"most", "shape"}, Outputs: []string{"flat"}},
		node("Unsqueeze", "flat", "output0"))
	m.Graph.Nodes[3].Inputs = []string{"flat", "first"}
	m.Graph.Initializers = []*onnx.Tensor{
		{Name: "shape", Type: onnx.Int64, Dims: []int64{2}, Ints: []int64{84, 8400}}, {Name: "first", Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{0}},
	}
	module := moduleOf(t, m)
	require.Equal(t, 1, New(Options{}).(executors.Limiter).Limit(module))
	image := make([]float32, 3*640*640)
	image[1<<20] = 7
	both(t, module, 1, func(t *testing.T, in executors.Instance) {
		got, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32(image, 3, 640, 640)}})
		require.NoError(t, err)
		assert.Equal(t, []int64{84, 8400}, got[0][0].Shape)
		have, err := got[0][0].Float32s()
		require.NoError(t, err)
		assert.Equal(t, slices.Repeat([]float32{7}, 84*8400), have)
	})
	module.Unbatched = true
	both(t, module, 1, func(t *testing.T, in executors.Instance) {
		got, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32(image, 1, 3, 640, 640)}})
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 84, 8400}, got[0][0].Shape)
	})
}

// TestAnyBatchAxis moves the batch from one dimension to another and compares with
// the requests by themselves.
func TestAnyBatchAxis(t *testing.T) {
	needs(t)
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(r, "rank")
		from, to := rapid.IntRange(0, rank-1).Draw(r, "from"), rapid.IntRange(0, rank-1).Draw(r, "to")
		n, fixed := rapid.IntRange(1, 4).Draw(r, "n"), rapid.Bool().Draw(r, "fixed")
		batch := int64(-1)
		if fixed {
			batch = 4
		}
		shape := rapid.SliceOfN(rapid.Int64Range(1, 3), rank-1, rank-1).Draw(r, "shape")
		order := make([]int64, 0, rank) // all but the batch stay in order
		for k := range int64(rank) {
			if int(k) != from {
				order = append(order, k)
			}
		}
		order = slices.Insert(order, to, int64(from))
		m := netOf([]*onnx.ValueInfo{onnx.Declare("x", onnx.Float, slices.Insert(slices.Clone(shape), from, batch)...)},
			[]*onnx.ValueInfo{onnx.Declare("y", onnx.Float, slices.Insert(slices.Clone(shape), to, batch)...)},
			node("Transpose", "x", "y", &onnx.Attribute{Name: "perm", Kind: onnx.KindInts, Ints: order}))
		module := moduleOf(t, m)
		module.BatchAxis = map[string]int{"x": from, "y": to}
		in, err := New(Options{}).Load(t.Context(), executors.Model{Module: module, Batches: []int{1, 4}})
		require.NoError(r, err)
		defer in.Close()
		items, _ := batchOf(rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1)), n, shape...)
		for i := range items {
			items[i][0] = items[i][0].Reshape(shape...)
		}
		memory := &lender{memory: make([]byte, 1<<14)}
		for range 3 {
			memory.used = 0
			got, err := in.(executors.Placer).RunPlaced(t.Context(), items, memory.lend)
			require.NoError(r, err)
			for i := range got {
				require.Equal(r, items[i][0].Data, got[i][0].Data)
				require.Equal(r, shape, append([]int64{}, got[i][0].Shape...))
			}
		}
	})
}

// TestNoRows joins rows, of which there may be none, with one more: as a batch of requests
// that have some and that have none, and along a batch axis behind them.
func TestNoRows(t *testing.T) {
	texts := func(n int) wire.Tensor {
		return wire.FromStrings(slices.Repeat([]string{"ab"}, n)).Reshape(int64(n), 1)
	}
	numbers := func(datatype string) func(n int) wire.Tensor {
		return func(n int) wire.Tensor {
			return wire.Tensor{Datatype: datatype, Shape: []int64{int64(n), 3}, Data: slices.Repeat([]byte{1}, n*3*wire.Size(datatype))}
		}
	}
	for name, c := range map[string]struct {
		kind  onnx.DataType
		width int64
		rows  func(n int) wire.Tensor
	}{
		"FP32": {onnx.Float, 3, numbers(wire.FP32)}, "INT64": {onnx.Int64, 3, numbers(wire.Int64)},
		"FP16": {onnx.Float16, 3, numbers(wire.FP16)}, "BYTES": {onnx.String, 1, texts},
	} {
		t.Run(name, func(t *testing.T) {
			rows := func(name string) *onnx.ValueInfo { return onnx.Declare(name, c.kind, -1, -1, c.width) }
			all := &onnx.Node{Op: "Concat", Inputs: []string{"rows", "own"}, Outputs: []string{"all"}, Attributes: []*onnx.Attribute{{Name: "axis", Kind: onnx.KindInt, Int: 1}}}
			m := moduleOf(t, netOf([]*onnx.ValueInfo{rows("rows"), rows("own")}, []*onnx.ValueInfo{rows("all"), rows("same")}, all, node("Identity", "rows", "same")))
			both(t, m, 4, func(t *testing.T, in executors.Instance) {
				for range 2 { // the second time with buffers that were kept
					for _, counts := range [][]int{{0}, {0, 2, 0, 1}, {2}} {
						var items [][]wire.Tensor
						for _, n := range counts {
							items = append(items, []wire.Tensor{c.rows(n), c.rows(1)})
						}
						got, err := in.Run(t.Context(), items)
						require.NoError(t, err)
						for i, n := range counts {
							require.Equal(t, c.rows(n+1), got[i][0])
							require.Equal(t, c.rows(n).Shape, got[i][1].Shape)
							require.Len(t, got[i][1].Data, len(c.rows(n).Data))
						}
					}
				}
			})
		})
	}
	t.Run("before the batch", func(t *testing.T) {
		m := moduleOf(t, netOf([]*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, -1, 3)}, []*onnx.ValueInfo{onnx.Declare("y", onnx.Float, -1, -1, 3)}, node("Neg", "x", "y")))
		m.BatchAxis = map[string]int{"x": 1, "y": 1}
		both(t, m, 4, func(t *testing.T, in executors.Instance) {
			none := []wire.Tensor{numbers(wire.FP32)(0)}
			got, err := in.Run(t.Context(), [][]wire.Tensor{none, none, none})
			require.NoError(t, err)
			for i := range got {
				require.Equal(t, []int64{0, 3}, got[i][0].Shape)
			}
		})
	})
}
