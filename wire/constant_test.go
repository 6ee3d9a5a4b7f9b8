package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func TestConstantsAreTensors(t *testing.T) {
	for _, c := range []struct {
		value any
		port  pipelines.Port
		want  Tensor
	}{
		{16000.0, pipelines.Port{Datatype: Int64, Shape: []int64{}}, FromInt64([]int64{16000}).Reshape()},
		{-2.0, pipelines.Port{Datatype: Int32, Shape: []int64{1}}, FromInt32([]int32{-2})},
		{[]any{1.0, 255.0}, pipelines.Port{Datatype: Uint8, Shape: []int64{2}}, FromUint8([]uint8{1, 255})},
		{[]any{[]any{0.1}, []any{2.0}}, pipelines.Port{Datatype: FP32, Shape: []int64{2, 1}}, FromFloat32([]float32{0.1, 2}, 2, 1)},
		{0.1, pipelines.Port{Datatype: FP64, Shape: []int64{}}, FromFloat64([]float64{0.1}).Reshape()},
		{0.1, pipelines.Port{Datatype: FP16, Shape: []int64{}}, FromFloat16([]float32{0.1}).Reshape()},
		{0.1, pipelines.Port{Datatype: BF16, Shape: []int64{}}, FromBFloat16([]float32{0.1}).Reshape()},
		{[]any{true, false}, pipelines.Port{Datatype: Bool, Shape: []int64{2}}, FromBools([]bool{true, false})},
		{[]any{"car", ""}, pipelines.Port{}, FromStrings([]string{"car", ""})},
	} {
		constant, err := pipelines.ConstantAt(c.value, c.port)
		require.NoError(t, err)
		got := FromConstant(constant)
		require.NoError(t, got.Validate())
		assert.Equal(t, c.want, got)
	}
}
