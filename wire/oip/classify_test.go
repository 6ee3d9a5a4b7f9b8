package oip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

// TestClasses holds classification to a sort of pairs.
func TestClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int32Range(-9, 9), 1, 40).Draw(t, "values")
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
		out, err := Classify(in, map[string]int{"f": n, "i": n}, nil)
		require.NoError(t, err)
		require.Equal(t, wire.FromStrings(want).Data, out.Outputs[0].Data)
		require.Equal(t, wire.FromStrings(wantInts).Data, out.Outputs[1].Data)
		require.Equal(t, []int64{int64(len(want))}, out.Outputs[0].Shape)
		require.Equal(t, wire.FP32, in.Outputs[0].Datatype, "what was given is as it was")
		require.NoError(t, out.Outputs[0].Validate())
	})
	empty := &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "e", Tensor: wire.FromFloat32(nil, 0, 3)}, {Name: "z", Tensor: wire.FromFloat32(nil, 2, 0)}, {Name: "s", Tensor: wire.FromFloat32([]float32{2})}}}
	out, err := Classify(empty, map[string]int{"e": 2, "z": 2, "s": 2}, nil)
	require.NoError(t, err)
	for i, shape := range [][]int64{{0, 2}, {2, 0}, {1}} {
		require.Equal(t, shape, out.Outputs[i].Shape)
		require.NoError(t, out.Outputs[i].Validate())
	}
}

// TestOrderOfClasses holds that values are compared as their datatype has them.
func TestOrderOfClasses(t *testing.T) {
	const big = 1 << 53
	numbers := func(datatype string, all ...uint64) wire.NamedTensor {
		t := wire.NamedTensor{Name: "x", Tensor: wire.Tensor{Datatype: datatype, Shape: []int64{int64(len(all))}}}
		for _, v := range all {
			t.Data = binary.LittleEndian.AppendUint64(t.Data, v)
		}
		return t
	}
	floats := func(all ...float64) wire.NamedTensor {
		bits := make([]uint64, len(all))
		for i, f := range all {
			bits[i] = math.Float64bits(f)
		}
		return numbers(wire.FP64, bits...)
	}
	for what, c := range map[string]struct {
		in   wire.NamedTensor
		want []string
	}{
		"int64":  {numbers(wire.Int64, big, big+1, math.MaxUint64), []string{"9007199254740993:1", "9007199254740992:0", "-1:2"}},
		"uint64": {numbers(wire.Uint64, big, big+1, math.MaxUint64), []string{"18446744073709551615:2", "9007199254740993:1", "9007199254740992:0"}},
		"floats": {floats(math.NaN(), math.Inf(-1), math.Copysign(0, -1), 0, -2, 3, math.Inf(1)), []string{"+Inf:6", "3.000000:5", "-0.000000:2", "0.000000:3", "-2.000000:4", "-Inf:1", "NaN:0"}},
		"long":   {floats(-math.MaxFloat64), []string{strconv.FormatFloat(-math.MaxFloat64, 'f', 6, 64) + ":0"}},
	} {
		out, err := Classify(&wire.InferResponse{Outputs: []wire.NamedTensor{c.in}}, map[string]int{"x": 9}, nil)
		require.NoError(t, err, what)
		require.Equal(t, wire.FromStrings(c.want).Data, out.Outputs[0].Data, what)
	}
}

// TestClassesCount holds that classes have a bound, and that their memory is asked for before it is
// used.
func TestClassesCount(t *testing.T) {
	for _, n := range []int64{-1, 1001, math.MaxInt32} {
		_, err := Want(nil, "x", n)
		require.ErrorContains(t, err, "from 1 to 1000")
	}
	classes, err := Want(nil, "x", 1000)
	require.NoError(t, err)
	for _, row := range []int64{1, 1000, 1 << 20} {
		t.Run(strconv.FormatInt(row, 10), func(t *testing.T) {
			in := &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "x", Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{1 << 20 / row, row}, Data: make([]byte, 1<<20/row*row)}}}}
			var asked int64
			out, err := Classify(in, classes, func(n int64) error { asked += n; return nil })
			require.NoError(t, err)
			require.NoError(t, out.Outputs[0].Validate())
			require.Equal(t, int64(cap(out.Outputs[0].Data)), asked)
			full := errors.New("full")
			_, err = Classify(in, classes, func(int64) error { return full })
			require.Equal(t, full, err)
		})
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
