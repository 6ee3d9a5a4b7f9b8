package executors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func TestCheck(t *testing.T) {
	bytes := func(data string, shape ...int64) wire.Tensor {
		return wire.Tensor{Datatype: "BYTES", Shape: shape, Data: []byte(data)}
	}
	floats := func(n int, shape ...int64) wire.Tensor {
		return wire.Tensor{Datatype: "FP32", Shape: shape, Data: make([]byte, n)}
	}
	words := pipelines.Port{Name: "x", Datatype: "BYTES", Shape: []int64{-1}}
	for name, c := range map[string]struct {
		port   pipelines.Port
		tensor wire.Tensor
		says   string // empty: fits
	}{
		"anything goes":       {pipelines.Port{}, wire.Tensor{Data: []byte("?")}, ""},
		"exact":               {port("x", 2, 3), floats(24, 2, 3), ""},
		"varying":             {port("x", -1, 3), floats(12, 1, 3), ""},
		"no rows":             {port("x", -1, 3), floats(0, 0, 3), ""},
		"scalar":              {port("x"), floats(4), ""},
		"rank":                {port("x", 2, 3), floats(24, 1, 2, 3), "shape [1 2 3] where [2 3]"},
		"dimension":           {port("x", -1, 3), floats(8, 1, 2), "shape [1 2]"},
		"negative":            {port("x", -1), floats(4, -1), "shape [-1] has a negative dimension"},
		"overflow":            {port("x", -1, -1, -1), floats(0, 1<<40, 1<<40, 1<<40), "too many elements"},
		"overflow after none": {port("x", -1, -1), floats(4, 0, 1<<62), "there are 4 bytes"},
		"too much data":       {port("x", 1), floats(8, 1), "needs 1 elements of 4 bytes, but there are 8"},
		"odd datatype":        {pipelines.Port{Name: "x", Datatype: "FP12", Shape: []int64{1}}, wire.Tensor{Datatype: "FP12", Shape: []int64{1}, Data: []byte{1}}, `unknown datatype "FP12"`},
		"none":                {port("x", 1), wire.Tensor{}, `"x" is nothing where FP32`},
		"words":               {words, bytes("\x01\x00\x00\x00a\x00\x00\x00\x00", 2), ""},
		"cut word":            {words, bytes("\x02\x00\x00\x00a", 1), "has a length of 2 bytes, but only 1"},
		"cut length":          {words, bytes("\x02\x00", 1), "no complete length"},
		"a word too many":     {words, bytes("\x00\x00\x00\x00\x00\x00\x00\x00", 1), "holds 2"},
		"huge word":           {words, bytes("\xff\xff\xff\xffa", 1), "only 1 follow"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]pipelines.Port{c.port}, []wire.Tensor{c.tensor})
			if c.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}
