package onnx

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/harpagon/harpagon/pipelines"
)

// nested is a field that holds a message of so many parts.
func nested(num protowire.Number, parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), all)
}

func number(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func named(num protowire.Number, text string) []byte { return nested(num, []byte(text)) }

// declares is an input or output of a graph; a dimension of 0 has a name.
func declares(num protowire.Number, name string, element uint64, dims ...uint64) []byte {
	var shape [][]byte
	for _, d := range dims {
		if d == 0 {
			shape = append(shape, nested(1, named(2, "n")))
		} else {
			shape = append(shape, nested(1, number(1, d)))
		}
	}
	return nested(num, named(1, name), nested(2, nested(1, number(1, element), nested(2, shape...))))
}

func kept(t *testing.T, parts ...[]byte) (path string) {
	path = filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, os.WriteFile(path, nested(7, parts...), 0o600))
	return path
}

// TestADeclarationIsReadWithoutItsWeights takes little memory besides the file, whatever the model
// weighs, and whatever its operators and data types are.
func TestADeclarationIsReadWithoutItsWeights(t *testing.T) {
	weights := make([]byte, 1<<20)
	tensor := func(num protowire.Number, name string, in protowire.Number) []byte {
		return nested(num, named(8, name), number(2, 10), nested(in, weights))
	}
	path := kept(t,
		nested(1, named(4, "Anything"), nested(5, named(1, "value"), number(20, 4), tensor(5, "", 9))),
		tensor(5, "raw", 9), tensor(5, "floats", 4), tensor(5, "ints", 7),
		declares(11, "x", 10, 0, 3), declares(11, "scalar", 7), declares(11, "raw", 10, 1<<19),
		declares(12, "y", 9, 0, 0), nested(12, named(1, "unknown")),
	)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = declared(raw)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(weights)/8))
	d, err := ReadDeclaration(path)
	require.NoError(t, err)
	l, err := d.Layout(pipelines.Module{})
	require.NoError(t, err)
	assert.Equal(t, pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP16", Shape: []int64{3}}, {Name: "scalar", Datatype: "INT64", Shape: []int64{}}},
		Outputs: []pipelines.Port{{Name: "y", Datatype: "BOOL", Shape: []int64{-1}}, {Name: "unknown"}},
	}, l.Signature)
	for _, parts := range [][][]byte{{declares(12, "y", 1)}, {nested(1)}} {
		_, err = ReadDeclaration(kept(t, parts...))
		require.ErrorContains(t, err, "it holds no nodes or no outputs")
	}
	_, err = ReadDeclaration(kept(t, nested(1), named(11, "no message")))
	require.ErrorContains(t, err, "damaged or not an ONNX file")
	d, err = ReadDeclaration(kept(t, nested(1), nested(11, named(1, "x")), declares(12, "y", 1)))
	require.NoError(t, err)
	_, err = d.Layout(pipelines.Module{})
	require.ErrorContains(t, err, `input "x" is no tensor with a shape`)
}

// TestExternalData is found in initializers, attributes, and graphs within graphs.
func TestExternalData(t *testing.T) {
	at := func(num protowire.Number, file string) []byte {
		return nested(num, nested(13, named(1, "offset"), named(2, "1")), nested(13, named(1, "location"), named(2, file)))
	}
	inner := func(num protowire.Number, file string) []byte { return nested(num, at(5, file)) }
	attribute := func(parts ...[]byte) []byte { return nested(1, nested(5, parts...)) }
	all := [][]byte{
		at(5, "weights"), at(5, "weights"), nested(5, named(8, "inside")),
		nested(15, at(1, "values"), at(2, "indices")),
		attribute(at(5, "one"), at(10, "many"), at(10, "more")),
		attribute(inner(6, "inner")), attribute(nested(11, attribute(inner(6, "innermost")))),
	}
	names, err := ExternalData(kept(t, all...))
	require.NoError(t, err)
	assert.Equal(t, []string{"indices", "inner", "innermost", "many", "more", "one", "values", "weights"}, names)
	_, err = ExternalData(kept(t, append(all, at(5, "../away"))...))
	require.ErrorContains(t, err, "not in its own folder")
	deep := at(5, "deep")
	for range 100 {
		deep = attribute(nested(6, deep))
	}
	names, err = ExternalData(kept(t, deep))
	require.NoError(t, err)
	assert.Empty(t, names, "loading reports that")
}
