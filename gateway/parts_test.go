package gateway

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// picky adds one, and refuses requests that begin with a number below zero.
func picky() kind {
	k := addOne
	k.run = func(in []wire.Tensor) []wire.Tensor {
		if floats(in[0])[0] < 0 {
			return nil
		}
		return addOne.run(in)
	}
	return k
}

func batchOf(rows ...[2]float32) []wire.NamedTensor {
	var all []float32
	for _, r := range rows {
		all = append(all, r[0], r[1])
	}
	return []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(all, int64(len(rows)), 2)}}
}

func TestBatchesOfClients(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	var mu sync.Mutex
	begun, ended := 0, 0
	count := func(n *int) func(RequestInfo) {
		return func(RequestInfo) { mu.Lock(); *n++; mu.Unlock() }
	}
	o := Options{Observer: Observer{RequestBegin: count(&begun), RequestEnd: count(&ended)}}
	g, workers := serve(t, o, deployment(single(long), 7, specs), specs)
	defer stop(g, workers)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		rows := make([][2]float32, n)
		for i := range rows {
			rows[i] = [2]float32{float32(i), rapid.Float32Range(-100, 100).Draw(t, "x")}
		}
		resp, err := g.Infer(context.Background(), &wire.InferRequest{ID: "a", Pipeline: "p", Inputs: batchOf(rows...)})
		require.NoError(t, err)
		require.Equal(t, "a", resp.ID)
		require.Equal(t, 7, resp.Generation)
		require.Equal(t, []int64{int64(n), 2}, resp.Outputs[0].Shape)
		for i, v := range floats(resp.Outputs[0].Tensor) {
			require.Equal(t, rows[i/2][i%2]+1, v, "in order")
		}
		requireSum(t, resp)
	})
	m := g.Measures("p")
	require.Equal(t, begun, ended)
	require.EqualValues(t, begun, m.Completed, "each request of a batch is one")
}

func TestTheFailureOfOneIsThatOfTheBatch(t *testing.T) {
	specs := map[string]spec{"m": {kind: picky()}}
	g, workers := serve(t, Options{}, deployment(single(long), 1, specs), specs)
	defer stop(g, workers)
	_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: batchOf([2]float32{1, 1}, [2]float32{-1, 1}, [2]float32{2, 2})})
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "m", e.Stage)
	require.Contains(t, e.Reason, "request 2 of 3: ")
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, err = g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: batchOf([2]float32{1, 1}, [2]float32{3, 1})})
	require.ErrorIs(t, err, wire.ErrDeadline, "one deadline for all")
}

// TestAnswersThatCannotBeJoined fans out to as many rows as the request states.
func TestAnswersThatCannotBeJoined(t *testing.T) {
	specs := fanningSpecs()
	g, workers := serve(t, Options{}, deployment(fanning(long), 1, specs), specs)
	defer stop(g, workers)
	resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: batchOf([2]float32{2, 5}, [2]float32{2, 6}), Outputs: []string{"sum"}})
	require.NoError(t, err)
	require.Equal(t, []int64{2, 2}, resp.Outputs[0].Shape)
	_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: batchOf([2]float32{2, 5}, [2]float32{3, 6}), Outputs: []string{"sum"}})
	require.ErrorIs(t, err, wire.ErrInvalid)
	require.ErrorContains(t, err, `output "sum" of a batch cannot be joined, because the answers differ`)
}

func TestWhatIsABatch(t *testing.T) {
	ports := []pipelines.Port{port("x", "FP32", 2), port("rows", "FP32", -1, 2), port("sr", "INT64")}
	x := func(shape ...int64) wire.Tensor {
		return wire.FromFloat32(make([]float32, wire.Tensor{Shape: shape}.Len()), shape...)
	}
	for _, c := range []struct {
		name  string
		given []wire.NamedTensor
		parts int
		err   string
	}{
		{"none", []wire.NamedTensor{{Name: "x", Tensor: x(2)}}, 0, ""},
		{"three", []wire.NamedTensor{{Name: "x", Tensor: x(3, 2)}}, 3, ""},
		{"one", []wire.NamedTensor{{Name: "x", Tensor: x(1, 2)}}, 1, ""},
		{"rows that vary are no batch", []wire.NamedTensor{{Name: "rows", Tensor: x(4, 2)}}, 0, ""},
		{"rows that vary, four times", []wire.NamedTensor{{Name: "rows", Tensor: x(4, 5, 2)}}, 4, ""},
		{"of all inputs", []wire.NamedTensor{{Name: "x", Tensor: x(2, 2)}, {Name: "rows", Tensor: x(2, 7, 2)}, {Name: "sr", Tensor: wire.FromInt64([]int64{1, 2})}}, 2, ""},
		{"a scalar for all", []wire.NamedTensor{{Name: "x", Tensor: x(2, 2)}, {Name: "sr", Tensor: wire.FromInt64([]int64{1}).Reshape()}}, 0, `input "x" has a batch of 2 and input "sr" has none, with shape [] as declared`},
		{"one, and a scalar", []wire.NamedTensor{{Name: "x", Tensor: x(1, 2)}, {Name: "sr", Tensor: wire.FromInt64([]int64{1}).Reshape()}}, 0, ""},
		{"of different sizes", []wire.NamedTensor{{Name: "x", Tensor: x(2, 2)}, {Name: "sr", Tensor: wire.FromInt64([]int64{1, 2, 3})}}, 0, `input "x" has a batch of 2 and input "sr" one of 3`},
		{"of nothing", []wire.NamedTensor{{Name: "x", Tensor: x(0, 2)}}, 0, "a batch of no requests"},
		{"an unknown name", []wire.NamedTensor{{Name: "y", Tensor: x(2, 2)}}, 0, ""},
		{"another shape", []wire.NamedTensor{{Name: "x", Tensor: x(2, 3)}}, 0, ""},
		{"too short", []wire.NamedTensor{{Name: "x", Tensor: wire.Tensor{Datatype: "FP32", Shape: []int64{1 << 40, 2}, Data: make([]byte, 8)}}}, 0, "8 bytes of data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts, err := wire.Batch(ports, c.given)
			require.Len(t, parts, c.parts)
			if c.err != "" {
				require.NotNil(t, err)
				require.Contains(t, err.Reason, c.err)
				return
			}
			require.Nil(t, err)
			for _, part := range parts {
				require.Len(t, part, len(c.given))
			}
		})
	}
}

// TestMistakesOfCallersCountInNoAttainment has an engine refuse a request because
// of its input, and one that fails by itself.
func TestMistakesOfCallersCountInNoAttainment(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	r := newRequest(mustCompile(t, deployment(single(long), 1, specs)), nil, 0, 0)
	for code, want := range map[wire.Code]Outcome{
		wire.CodeInvalid: Invalid, wire.CodeInternal: Failed, wire.CodeUnavailable: Failed, wire.CodeDeadline: Dropped, wire.CodeCanceled: Cancelled,
	} {
		require.Equal(t, want, outcome(r, wire.Errorf(code, "m", "because")), code)
	}
	require.Equal(t, Completed, outcome(r, nil))
	// What another module has made is no mistake of the caller.
	deeper := newRequest(mustCompile(t, deployment(fanning(long), 1, fanningSpecs())), nil, 0, 0)
	for _, n := range deeper.Graph.Nodes {
		want := Failed
		if n.TakesRequestInput() {
			want = Invalid
		}
		require.Equal(t, want, outcome(deeper, wire.Errorf(wire.CodeInvalid, n.Name, "because")), n.Name)
	}
}

func mustCompile(t *testing.T, d placement.Deployment) *Graph {
	gr, err := New(Options{}).compile(t.Context(), d, false)
	require.NoError(t, err)
	return gr.Graph
}
