package oip

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

// TestClasses holds classification to a sort of pairs.
func TestClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int32Range(-9, 9), 1, 8).Draw(t, "values")
		n := rapid.IntRange(1, 10).Draw(t, "classes")
		floats, pairs := make([]float32, len(values)), make([][2]int, len(values))
		for i, v := range values {
			floats[i], pairs[i] = float32(v), [2]int{-int(v), i}
		}
		slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		want, wantInts := []string{}, []string{}
		for _, p := range pairs[:min(n, len(pairs))] {
			want = append(want, fmt.Sprintf("%d.000000:%d", -p[0], p[1]))
			wantInts = append(wantInts, fmt.Sprintf("%d:%d", -p[0], p[1]))
		}
		whole := int64(len(values))
		q := []byte(`{"inputs":[{"name":"i","datatype":"INT32","shape":[` + fmt.Sprint(whole) + `],"data":` + fmt.Sprintf("%v", jsonList(values)) + `}]}`)
		call, err := DecodeRequest(q, -1)
		require.NoError(t, err)
		in := &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "f", Tensor: wire.FromFloat32(floats, whole)}, call.Request.Inputs[0]}}
		out, err := Classify(in, map[string]int{"f": n, "i": n})
		require.NoError(t, err)
		require.Equal(t, wire.FromStrings(want).Data, out.Outputs[0].Data)
		require.Equal(t, wire.FromStrings(wantInts).Data, out.Outputs[1].Data)
		require.Equal(t, []int64{int64(len(want))}, out.Outputs[0].Shape)
		require.Equal(t, wire.FP32, in.Outputs[0].Datatype, "what was given is as it was")
		require.NoError(t, out.Outputs[0].Validate())
	})
	empty := &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "e", Tensor: wire.FromFloat32(nil, 0, 3)}, {Name: "z", Tensor: wire.FromFloat32(nil, 2, 0)}, {Name: "s", Tensor: wire.FromFloat32([]float32{2})}}}
	out, err := Classify(empty, map[string]int{"e": 2, "z": 2, "s": 2})
	require.NoError(t, err)
	for i, shape := range [][]int64{{0, 2}, {2, 0}, {1}} {
		require.Equal(t, shape, out.Outputs[i].Shape)
		require.NoError(t, out.Outputs[i].Validate())
	}
}

func jsonList(values []int32) string {
	text := ""
	for i, v := range values {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(v)
	}
	return "[" + text + "]"
}
