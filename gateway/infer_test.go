package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

const long = 30 * time.Second // an SLO that a loaded machine keeps

func TestOneModule(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	g, workers := serve(t, Options{}, deployment(single(long), 7, specs), specs)
	defer stop(g, workers)
	resp, err := g.Infer(context.Background(), &wire.InferRequest{ID: "a", Pipeline: "p", Inputs: vector(1, 2)})
	require.NoError(t, err)
	require.Equal(t, "a", resp.ID)
	require.Equal(t, 7, resp.Generation)
	require.Equal(t, []float32{2, 3}, floats(resp.Outputs[0].Tensor))
	require.Equal(t, "y", resp.Outputs[0].Name)
	require.Len(t, resp.Stages, 1)
	requireSum(t, resp)
}

// requireSum checks that the critical stages account for all of the time.
func requireSum(t require.TestingT, resp *wire.InferResponse) {
	var sum time.Duration
	for _, s := range resp.Stages {
		require.GreaterOrEqual(t, min(s.Queue, s.Wait, s.Compute, s.Transfer), time.Duration(0), "%+v", s)
		if s.Critical {
			sum += s.Queue + s.Wait + s.Compute + s.Transfer
		}
	}
	require.Equal(t, resp.Elapsed, sum)
}

func TestFanOutAndGather(t *testing.T) {
	specs := fanningSpecs()
	g, workers := serve(t, Options{}, deployment(fanning(long), 1, specs), specs)
	defer stop(g, workers)
	for _, k := range []int{3, 1, 0, 8} {
		resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(k), 5)})
		require.NoError(t, err)
		out := tensors(resp.Outputs)
		var sums, rows []float32
		for i := range k {
			rows = append(rows, 7, float32(i+2))
			sums = append(sums, float32(6+7+i+1+i+2))
		}
		require.Equal(t, append([]float32{}, sums...), floats(out["sum"]))
		require.Equal(t, []int64{int64(k)}, out["sum"].Shape)
		require.Equal(t, append([]float32{}, rows...), floats(out["rows"]))
		require.Equal(t, []int64{int64(k), 2}, out["rows"].Shape)
		text, err := out["text"].Strings()
		require.NoError(t, err)
		require.Equal(t, []string{map[int]string{3: "[3 2]", 1: "[1 2]", 0: "[0 2]", 8: "[8 2]"}[k]}, text)
		require.Equal(t, []int64{1}, out["n"].Shape, "a scalar at the root has shape [1]")
		require.Equal(t, []float32{float32(k), 5}, floats(out["x"]))
		requireSum(t, resp)
		items := map[string]int{}
		for _, s := range resp.Stages {
			items[s.Module] = s.Items
		}
		require.Equal(t, map[string]int{"spread": 1, "inc": k, "again": k, "join": k, "tally": 1}, items)
	}
	seen := g.Measures("p")
	require.Equal(t, []autoscale.ItemCount{{Items: 0, Times: 1}, {Items: 1, Times: 1}, {Items: 3, Times: 1}, {Items: 8, Times: 1}}, seen.Module("inc").Items)
}

// TestMoreThanDeclared splits a request into more items than declared at most: it is answered,
// and observers are notified.
func TestMoreThanDeclared(t *testing.T) {
	p := fanning(long)
	p.Modules[1].Fanout, p.Modules[1].Most = 1.8, 3
	var told []ExceedInfo // by the request's own goroutine or its executor's, which it waits for
	specs := fanningSpecs()
	g, workers := serve(t, Options{Observer: Observer{Exceeded: func(i ExceedInfo) { told = append(told, i) }}}, deployment(p, 1, specs), specs)
	defer stop(g, workers)
	for _, k := range []int{3, 4, 0, 8} {
		resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(k), 5)})
		require.NoError(t, err)
		require.Equal(t, []int64{int64(k)}, tensors(resp.Outputs)["sum"].Shape)
	}
	require.Equal(t, []ExceedInfo{{"p", "inc", 4, 3}, {"p", "inc", 8, 3}}, told)
}

func TestWantedOutputsOnly(t *testing.T) {
	specs := fanningSpecs()
	g, workers := serve(t, Options{}, deployment(fanning(long), 1, specs), specs)
	defer stop(g, workers)
	resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 5), Outputs: []string{"n"}})
	require.NoError(t, err)
	require.Len(t, resp.Outputs, 1)
	require.Equal(t, "n", resp.Outputs[0].Name)
}

func TestInvalidRequests(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	g, workers := serve(t, Options{}, deployment(single(long), 1, specs), specs)
	defer stop(g, workers)
	x := func(t wire.Tensor) []wire.NamedTensor { return []wire.NamedTensor{{Name: "x", Tensor: t}} }
	good := wire.FromFloat32([]float32{1, 2}, 2)
	for _, c := range []struct {
		name    string
		request wire.InferRequest
		code    wire.Code
		says    string
	}{
		{"pipeline", wire.InferRequest{Pipeline: "q"}, wire.CodeNotFound, `"q" is not served`},
		{"missing", wire.InferRequest{}, wire.CodeInvalid, `"x" is missing; it is FP32 [2]`},
		{"unknown", wire.InferRequest{Inputs: []wire.NamedTensor{{Name: "z", Tensor: good}}}, wire.CodeInvalid, `no input "z"; pipeline "p" takes x`},
		{"twice", wire.InferRequest{Inputs: append(x(good), x(good)...)}, wire.CodeInvalid, "twice"},
		{"datatype", wire.InferRequest{Inputs: x(wire.FromInt64([]int64{1, 2}, 2))}, wire.CodeInvalid, "INT64 where FP32 is declared"},
		{"shape", wire.InferRequest{Inputs: x(wire.FromFloat32([]float32{1, 2, 3}, 3))}, wire.CodeInvalid, "shape [3] where [2] is declared"},
		{"batches of batches", wire.InferRequest{Inputs: x(wire.FromFloat32(make([]float32, 4), 1, 2, 2))}, wire.CodeInvalid, "shape [1 2 2]"},
		{"batch of none", wire.InferRequest{Inputs: x(wire.FromFloat32(nil, 0, 2))}, wire.CodeInvalid, "a batch of no requests"},
		{"batch of too many", wire.InferRequest{Inputs: x(wire.FromFloat32(make([]float32, 20000), 10000, 2))}, wire.CodeInvalid, "a batch of 10000 requests is more than the"},
		{"output of a batch", wire.InferRequest{Inputs: x(wire.FromFloat32(make([]float32, 4), 2, 2)), Outputs: []string{"w"}}, wire.CodeInvalid, `harpagon: invalid: there is no output "w"`},
		{"length", wire.InferRequest{Inputs: x(wire.Tensor{Datatype: "FP32", Shape: []int64{2}, Data: make([]byte, 7)})}, wire.CodeInvalid, "7 bytes"},
		{"output", wire.InferRequest{Inputs: x(good), Outputs: []string{"w"}}, wire.CodeInvalid, `no output "w"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.request.Pipeline == "" {
				c.request.Pipeline = "p"
			}
			_, err := g.Infer(context.Background(), &c.request)
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code)
			require.Contains(t, err.Error(), c.says)
		})
	}
	resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: x(wire.FromFloat32([]float32{1, 2}, 1, 2))})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, resp.Outputs[0].Shape, "a batch of one has an answer of one")
	m := g.Measures("p")
	require.Equal(t, []int64{1, 1, 0}, []int64{m.Arrived, m.Completed, m.Refused}, "wrong requests are no load")
	require.Equal(t, []float64{11, 1}, []float64{float64(m.Invalid), m.Attainment}, "and do not count against the service")
}

func TestMetadata(t *testing.T) {
	specs := fanningSpecs()
	g, workers := serve(t, Options{}, deployment(fanning(long), 3, specs), specs)
	m, err := g.Metadata(context.Background(), "p")
	require.NoError(t, err)
	require.True(t, m.Ready)
	require.Equal(t, oip.Platform, m.Platform)
	require.Equal(t, oip.PlatformEmulated, oip.PlatformOf(placement.EmulatedBy([]placement.Slot{{Engine: "gorgonia"}, {Engine: "emulated+function"}})), "one module suffices")
	require.Equal(t, 3, m.Generation)
	require.Equal(t, "x", m.Inputs[0].Name)
	shapes := map[string][]int64{}
	for _, o := range m.Outputs {
		shapes[o.Name] = o.Shape
	}
	require.Equal(t, map[string][]int64{"sum": {-1}, "rows": {-1, 2}, "text": {1}, "n": {1}, "x": {2}}, shapes)
	_, err = g.Metadata(context.Background(), "q")
	require.ErrorIs(t, err, wire.ErrNotFound)
	stop(g, workers)
	m, err = g.Metadata(context.Background(), "p")
	require.NoError(t, err)
	require.False(t, m.Ready)
	require.Contains(t, m.Reason, "no executor is attached for module spread")
}

// BenchmarkInfer sends one request after the other: through one module, and
// through a fan-out within a fan-out of 12 items.
func BenchmarkInfer(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		benchmarkInfer(b, single(long), map[string]spec{"m": {kind: addOne}}, vector(1, 2))
	})
	b.Run("nested", func(b *testing.B) {
		benchmarkInfer(b, nested(), nestedSpecs(), vector(1, 3))
	})
}

func benchmarkInfer(b *testing.B, p pipelines.Pipeline, specs map[string]spec, inputs []wire.NamedTensor) {
	g, workers := serve(b, Options{}, deployment(p, 1, specs), specs)
	defer stop(g, workers)
	q := &wire.InferRequest{Pipeline: "p", Inputs: inputs}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Infer(context.Background(), q); err != nil {
			b.Fatal(err)
		}
	}
}
