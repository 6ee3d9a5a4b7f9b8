package executors_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

func double(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if len(items) > 3 {
		return nil, errors.New("too many")
	}
	out := make([][]wire.Tensor, len(items))
	for i, item := range items {
		x, err := item[0].Float32s()
		if err != nil {
			return nil, err
		}
		out[i] = []wire.Tensor{wire.FromFloat32([]float32{2 * x[0]})}
	}
	return out, nil
}

func TestTheWayThereAndBack(t *testing.T) {
	for name, loop := range map[string]executors.Loopback{"in memory": nil, "over the loopback interface": attach.Dialer{}.Loop} {
		t.Run(name, func(t *testing.T) {
			w, err := executors.OpenRoundTrip(loop, double)
			require.NoError(t, err)
			defer w.Close()
			query := [][]wire.Tensor{{wire.FromFloat32([]float32{1})}, {wire.FromFloat32([]float32{2})}, {wire.FromFloat32([]float32{4})}}
			for range 3 {
				out, err := w.Run(t.Context(), query)
				require.NoError(t, err)
				require.Len(t, out, 3)
				last, err := out[2][0].Float32s()
				require.NoError(t, err)
				assert.Equal(t, []float32{8}, last)
			}
			_, err = w.Run(t.Context(), append(query, query[0]))
			assert.ErrorContains(t, err, "too many")
			_, err = w.Run(t.Context(), query[:1])
			assert.NoError(t, err, "the way goes on")
		})
	}
}
