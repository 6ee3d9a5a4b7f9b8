package onnxruntime

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/wire"
)

// lender gives the same memory for every batch, as a caller of RunPlaced does.
type lender struct {
	memory []byte
	used   int
}

func (l *lender) lend(n int) []byte {
	at := (l.used + 63) &^ 63
	if n > len(l.memory)-at {
		return nil
	}
	l.used = at + n
	return l.memory[at:l.used:l.used]
}

// gather puts input j of all items into one piece of memory, in place.
func (l *lender) gather(items [][]wire.Tensor) {
	for j := range items[0] {
		for i := range items {
			to := l.memory[l.used : l.used+len(items[i][j].Data)]
			copy(to, items[i][j].Data)
			items[i][j].Data, l.used = to, l.used+len(to)
		}
	}
}

func within(l *lender, data []byte) bool {
	for i := range l.memory {
		if &l.memory[i] == &data[0] {
			return true
		}
	}
	return false
}

func TestPlacedBatchesAreThoseOfRun(t *testing.T) {
	needs(t)
	rng := rand.New(rand.NewPCG(1, 1))
	dense := write(t, denseModel(rng, 16, 32, 8))
	fixed := mean()
	fixed.Graph.Inputs[0] = onnx.Declare("image", onnx.Float, 4, 2, 3, 5)
	fixed.Graph.Outputs[0] = onnx.Declare("mean", onnx.Float, 4, 2, 1, 1)
	for name, c := range map[string]struct {
		path  string
		shape []int64
	}{
		"dense": {dense, []int64{16}},
		"open":  {write(t, mean()), []int64{2, 3, 5}},
		"fixed": {write(t, fixed), []int64{2, 3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			plain, placed := load(t, c.path, 4), load(t, c.path, 4).(executors.Placer)
			inputs, outputs := &lender{memory: make([]byte, 1<<14)}, &lender{memory: make([]byte, 1<<14)}
			for round := range 20 {
				inputs.used, outputs.used = 0, 0
				if round > 15 {
					outputs.used = len(outputs.memory) // no more is lent
				}
				n := 1 + rng.IntN(4)
				items, _ := batchOf(rng, n, c.shape...)
				want, err := plain.Run(t.Context(), items)
				require.NoError(t, err)
				if rng.IntN(4) > 0 {
					inputs.gather(items)
				}
				got, err := placed.RunPlaced(t.Context(), items, outputs.lend)
				require.NoError(t, err)
				require.Equal(t, want, got)
				if outputs.used > 0 && round <= 15 {
					assert.True(t, within(outputs, got[n-1][0].Data))
				}
			}
			assert.Positive(t, outputs.used)
		})
	}
}

// TestOutputsThatDependOnTheData places the output of a network whose length
// differs from batch to batch, which its declaration does not show.
func TestOutputsThatDependOnTheData(t *testing.T) {
	needs(t)
	m := onnx.NewModel(13)
	m.Graph.Name = "choose"
	m.Graph.Inputs = []*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, 3)}
	m.Graph.Outputs = []*onnx.ValueInfo{onnx.Declare("y", onnx.Float, -1, -1)}
	// The columns of the first row that are not zero, of every row.
	m.Graph.Nodes = []*onnx.Node{
		{Op: "ReduceMax", Inputs: []string{"x"}, Outputs: []string{"top"}, Attributes: []*onnx.Attribute{
			{Name: "axes", Kind: onnx.KindInts, Ints: []int64{0}}, {Name: "keepdims", Kind: onnx.KindInt, Int: 0}}},
		{Op: "Cast", Inputs: []string{"top"}, Outputs: []string{"chosen"}, Attributes: []*onnx.Attribute{{Name: "to", Kind: onnx.KindInt, Int: 9}}},
		{Op: "Compress", Inputs: []string{"x", "chosen"}, Outputs: []string{"y"}, Attributes: []*onnx.Attribute{{Name: "axis", Kind: onnx.KindInt, Int: 1}}},
	}
	in := load(t, write(t, m), 2).(executors.Placer)
	to := &lender{memory: make([]byte, 1<<12)}
	for _, x := range [][]float32{{1, 2, 3}, {1, 2, 3}, {0, 5, 6}, {0, 0, 7}, {1, 2, 3}} {
		to.used = 0
		var want []float32
		for _, v := range x {
			if v != 0 {
				want = append(want, v)
			}
		}
		got, err := in.RunPlaced(t.Context(), [][]wire.Tensor{{wire.FromFloat32(x, 3)}}, to.lend)
		require.NoError(t, err)
		have, err := got[0][0].Float32s()
		require.NoError(t, err)
		assert.Equal(t, want, have)
		assert.Equal(t, []int64{int64(len(want))}, got[0][0].Shape)
	}
}
