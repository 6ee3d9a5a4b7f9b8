package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
)

func TestTensorsKeepTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		got, err := FromFloat32(floats).Float32s()
		require.NoError(t, err)
		require.Equal(t, append([]float32{}, floats...), got)

		doubles := rapid.SliceOf(rapid.Float64()).Draw(t, "doubles")
		got64, err := FromFloat64(doubles).Float64s()
		require.NoError(t, err)
		require.Equal(t, append([]float64{}, doubles...), got64)

		words := rapid.SliceOf(rapid.String()).Draw(t, "words")
		gotWords, err := FromStrings(words).Strings()
		require.NoError(t, err)
		require.Equal(t, append([]string{}, words...), gotWords)

		longs := rapid.SliceOf(rapid.Int64()).Draw(t, "longs")
		gotLongs, err := FromInt64(longs).Int64s()
		require.NoError(t, err)
		require.Equal(t, append([]int64{}, longs...), gotLongs)

		ints := rapid.SliceOf(rapid.Int32()).Draw(t, "ints")
		gotInts, err := FromInt32(ints).Int32s()
		require.NoError(t, err)
		require.Equal(t, append([]int32{}, ints...), gotInts)

		octets := rapid.SliceOf(rapid.Uint8()).Draw(t, "octets")
		gotOctets, err := FromUint8(octets).Uint8s()
		require.NoError(t, err)
		require.Equal(t, append([]uint8{}, octets...), gotOctets)
	})
}

func TestReshapeWithoutDimensionsIsAScalar(t *testing.T) {
	s := FromFloat32([]float32{3}).Reshape()
	require.NotNil(t, s.Shape)
	require.Empty(t, s.Shape)
	require.Equal(t, 1, s.Len())
	require.NoError(t, s.Validate())
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		tensor Tensor
		err    string
	}{
		{"sound", FromFloat32(make([]float32, 6), 2, 3), ""},
		{"no rows", FromFloat32(nil, 0, 3), ""},
		{"no strings", FromStrings(nil, 0), ""},
		{"too short", Tensor{FP32, []int64{2, 3}, make([]byte, 20)}, "needs 6 elements of 4 bytes, but there are 20 bytes"},
		{"odd length", Tensor{FP32, []int64{1}, make([]byte, 5)}, "5 bytes"},
		{"datatype", Tensor{"FP33", []int64{1}, make([]byte, 4)}, `unknown datatype "FP33"`},
		{"negative", Tensor{FP32, []int64{-1}, nil}, "negative"},
		{"overflow", Tensor{FP32, []int64{1 << 40, 1 << 40}, nil}, "too many"},
		{"cut length", Tensor{Bytes, []int64{1}, []byte{1, 0}}, "no complete length"},
		{"cut string", Tensor{Bytes, []int64{1}, []byte{9, 0, 0, 0, 'a'}}, "has a length of 9 bytes, but only 1"},
		{"too few strings", Tensor{Bytes, []int64{2}, []byte{1, 0, 0, 0, 'a'}}, "needs 2 elements, but the data holds 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.tensor.Validate()
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestAccessorsRefuseOtherDatatypes(t *testing.T) {
	_, err := FromInt64([]int64{1}).Float32s()
	require.ErrorContains(t, err, "holds INT64, not FP32")
	_, err = Tensor{}.Strings()
	require.ErrorContains(t, err, "no datatype")
	_, err = Tensor{FP32, []int64{3}, nil}.Float32s()
	require.Error(t, err)
}

func FuzzValidate(f *testing.F) {
	f.Add("BYTES", []byte{1, 0, 0, 0, 'a'}, int64(1), int64(1))
	f.Add("FP32", make([]byte, 8), int64(2), int64(1))
	f.Fuzz(func(t *testing.T, datatype string, data []byte, a, b int64) {
		defer testkit.WatchStalls(t, len(data))()
		tensor := Tensor{datatype, []int64{a, b}, data}
		if tensor.Validate() != nil {
			return
		}
		if datatype == Bytes { // what is sound can be read
			words, err := tensor.Strings()
			if err != nil || len(words) != tensor.Len() {
				t.Fatal(err, len(words))
			}
		}
	})
}
