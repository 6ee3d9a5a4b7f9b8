package executors

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/wire"
)

// echo gives its inputs back, without handling constants.
type echo struct{ signature pipelines.Signature }

func (echo) Name() string    { return "echo" }
func (echo) Version() string { return "1" }
func (e echo) Load(context.Context, Model) (Instance, error) {
	return echoing(e), nil
}

type echoing struct{ signature pipelines.Signature }

func (e echoing) Signature() pipelines.Signature { return e.signature }
func (echoing) Memory() int64                    { return 0 }
func (echoing) Close() error                     { return nil }
func (echoing) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	return items, nil
}
func (echoing) Sample(shapes [][]int64, _ *rand.Rand) []wire.Tensor {
	all := make([]wire.Tensor, len(shapes))
	for j, s := range shapes {
		all[j] = wire.FromFloat32(make([]float32, wire.Tensor{Shape: s}.Len()), s...)
	}
	return all
}

var echoSignature = pipelines.Signature{Inputs: []pipelines.Port{
	{Name: "sr", Datatype: wire.Int64, Shape: []int64{}}, {Name: "x", Datatype: wire.FP32, Shape: []int64{2}}, {Name: "mode", Datatype: wire.Bytes, Shape: []int64{1}},
}}

func TestEnginesAreFedConstants(t *testing.T) {
	h := &Host{Name: "h", Engines: []Engine{echo{echoSignature}}}
	m := pipelines.Module{Name: "m", Engine: "echo", Inputs: []pipelines.Binding{
		{Name: "x", From: build.FromInput("x")}, {Name: "mode", Value: "fast"}, {Name: "sr", Value: 8000.0},
	}}
	e, err := h.EngineFor(m)
	require.NoError(t, err)
	assert.Equal(t, "echo", e.Name())
	in, err := e.Load(t.Context(), Model{Module: m})
	require.NoError(t, err)
	require.Equal(t, []pipelines.Port{{Name: "x", Datatype: wire.FP32, Shape: []int64{2}}}, in.Signature().Inputs)
	x := func(v float32) []wire.Tensor { return []wire.Tensor{wire.FromFloat32([]float32{v, v}, 2)} }
	items := [][]wire.Tensor{x(1), x(2)}
	got, err := in.Run(t.Context(), items)
	require.NoError(t, err)
	for i := range got {
		assert.Equal(t, []wire.Tensor{wire.FromInt64([]int64{8000}).Reshape(), items[i][0], wire.FromStrings([]string{"fast"})}, got[i])
	}
	assert.Len(t, items[0], 1, "what was given stays as it is")
	_, err = in.Run(t.Context(), [][]wire.Tensor{{}})
	require.ErrorContains(t, err, "0 tensors where 1 are expected")
	sampler, _ := in.(Sampler)
	sampled := SampleInputs(in.Signature().Inputs, sampler, nil, rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, Check(in.Signature().Inputs, sampled))

	m.Inputs[1].Value = 7.0
	e, err = h.EngineFor(m)
	require.NoError(t, err)
	_, err = e.Load(t.Context(), Model{Module: m})
	require.ErrorIs(t, err, wire.ErrInvalid)
	assert.ErrorContains(t, err, `input "mode", which is BYTES [1]: the constant holds 7 where BYTES is taken`)
}

func TestAModelIsOfItsUse(t *testing.T) {
	plain := pipelines.Module{Name: "m", Function: "f"}
	digest := func(m pipelines.Module) string {
		d, err := content.Digest(m)
		require.NoError(t, err)
		return d
	}
	fed := plain
	fed.Inputs = []pipelines.Binding{{Name: "x", From: build.FromInput("x")}}
	assert.Equal(t, digest(plain), digest(fed))
	fixed, other, single, along := fed, fed, fed, fed
	fixed.Inputs = []pipelines.Binding{{Name: "x", Value: 1.0}}
	other.Inputs = []pipelines.Binding{{Name: "x", Value: 2.0}}
	single.Unbatched, along.BatchAxis = true, map[string]int{"x": 1}
	seen := map[string]bool{}
	for _, m := range []pipelines.Module{plain, fixed, other, single, along} {
		seen[digest(m)] = true
	}
	assert.Len(t, seen, 5)
}

// TestOneByOne serves an unbatched module with an engine that counts batches.
func TestOneByOne(t *testing.T) {
	in := OneByOne(echoing{pipelines.Signature{Inputs: []pipelines.Port{{Name: "x", Datatype: wire.FP32, Shape: []int64{2}}}}})
	assert.Equal(t, []int64{1, 2}, in.Signature().Inputs[0].Shape)
	item := []wire.Tensor{wire.FromFloat32([]float32{1, 2}, 1, 2)}
	got, err := in.Run(t.Context(), [][]wire.Tensor{item})
	require.NoError(t, err)
	assert.Equal(t, [][]wire.Tensor{item}, got)
	for _, bad := range [][][]wire.Tensor{{item, item}, {{wire.FromFloat32([]float32{1, 2}, 2)}}, {{}}} {
		_, err := in.Run(t.Context(), bad)
		require.ErrorIs(t, err, wire.ErrInvalid)
	}
}

// limited is an engine whose models take few requests at a time.
type limited struct {
	echo
	most int
}

func (l limited) Limit(pipelines.Module) int { return l.most }

func TestBatchesThatFit(t *testing.T) {
	for most, want := range map[int][]int{0: DefaultBatches(), 1: {1}, 3: {1, 2}, 8: {1, 2, 4, 8}, 64: DefaultBatches()} {
		assert.Equal(t, want, MeasureTask{}.Fit(limited{most: most}).batches(), most)
		assert.Equal(t, want, MeasureTask{}.Fit(withConstants{limited{most: most}}).batches(), most)
	}
	assert.Equal(t, []int{1}, MeasureTask{Module: pipelines.Module{Unbatched: true}}.Fit(echo{}).batches())
	own := MeasureTask{Module: pipelines.Module{Batches: []int{3, 5}}}
	assert.Equal(t, []int{3, 5}, own.Fit(limited{most: 3}).batches(), "loading reports what is wrong with them")
}

// An instance that is fed constants ends by itself as that which it feeds.
func TestWhatIsFedMayEnd(t *testing.T) {
	ended := errors.New("killed")
	deaths := make(chan error, 1)
	deaths <- ended
	in := &filled{Instance: &fakeInstance{fake: &fake{deaths: deaths}}}
	assert.Equal(t, ended, in.AwaitEnd(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, in.AwaitEnd(over))
	require.NoError(t, (&filled{}).AwaitEnd(over), "it never does")
}
