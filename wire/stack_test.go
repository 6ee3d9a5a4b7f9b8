package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

func TestStackAndRowsUndoEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 3).Draw(t, "shape")
		n := Tensor{Shape: shape}.Len()
		texts := rapid.Bool().Draw(t, "texts")
		var rows []Tensor
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			if texts {
				rows = append(rows, FromStrings(rapid.SliceOfN(rapid.String(), n, n).Draw(t, "text"), shape...))
			} else {
				rows = append(rows, FromFloat32(rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "numbers"), shape...))
			}
		}
		all, err := Stack(rows)
		require.NoError(t, err)
		require.NoError(t, all.Validate())
		again, err := Rows(all)
		require.NoError(t, err)
		require.Len(t, again, len(rows))
		for i := range rows {
			require.Equal(t, string(rows[i].Data), string(again[i].Data))
			require.Equal(t, len(rows[i].Shape), len(again[i].Shape))
			require.NoError(t, again[i].Validate())
		}
	})
}

func TestStackAndRowsRefuse(t *testing.T) {
	_, err := Stack([]Tensor{FromFloat32([]float32{1}, 1), FromFloat32([]float32{1, 2}, 2)})
	assert.ErrorContains(t, err, "item 1 is FP32 [1] and item 2 is FP32 [2]")
	for _, bad := range []Tensor{
		{Datatype: FP32},
		{Datatype: FP32, Shape: []int64{-1}},
		{Datatype: FP32, Shape: []int64{2, 2}, Data: make([]byte, 12)},
		{Datatype: FP32, Shape: []int64{1 << 60}},
		{Datatype: Bytes, Shape: []int64{2}, Data: []byte{9, 0, 0, 0}},
		{Datatype: "FP31", Shape: []int64{1}, Data: []byte{1}},
	} {
		_, err := Rows(bad)
		assert.Error(t, err, "%v", bad)
	}
}

func TestArrange(t *testing.T) {
	ports := []pipelines.Port{{Name: "a", Datatype: FP32, Shape: []int64{2}}, {Name: "b", Datatype: FP32, Shape: []int64{-1}}}
	a := NamedTensor{Name: "a", Tensor: FromFloat32([]float32{1, 2}, 1, 2)}
	b := NamedTensor{Name: "b", Tensor: FromFloat32([]float32{3, 4, 5}, 3)}
	got, err := Arrange(ports, []NamedTensor{b, a}, "p")
	require.Nil(t, err)
	assert.Equal(t, []int64{2}, got[0].Shape)
	assert.Equal(t, b.Tensor, got[1])
	for want, given := range map[string][]NamedTensor{
		`there is no input "c"; p takes a, b`:  {{Name: "c"}},
		"given twice":                          {a, a},
		`input "b" is missing`:                 {a},
		"is INT64 where FP32":                  {{Name: "a", Tensor: FromInt64([]int64{1, 2}, 2)}},
		"has shape [3] where [2]":              {{Name: "a", Tensor: FromFloat32([]float32{1, 2, 3}, 3)}},
		`input "a": shape [2] of FP32 needs 2`: {{Name: "a", Tensor: Tensor{Datatype: FP32, Shape: []int64{2}}}},
	} {
		_, err := Arrange(ports, given, "p")
		require.NotNil(t, err, want)
		assert.ErrorContains(t, err, want)
	}
}
