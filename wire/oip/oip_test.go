package oip

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// anyTensor draws a sound tensor of any datatype.
func anyTensor(t *rapid.T) wire.Tensor {
	datatype := rapid.SampledFrom([]string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"}).Draw(t, "datatype")
	shape := rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 3).Draw(t, "shape")
	tensor := wire.Tensor{Datatype: datatype, Shape: shape}
	n := tensor.Len()
	if datatype == wire.Bytes {
		words := rapid.SliceOfN(rapid.String(), n, n).Draw(t, "words")
		return wire.Tensor{Datatype: datatype, Shape: shape, Data: wire.FromStrings(words).Data}
	}
	size := n * wire.Size(datatype)
	tensor.Data = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
	if datatype == wire.Bool {
		for i := range tensor.Data {
			tensor.Data[i] &= 1
		}
	}
	return tensor
}

func named(t *rapid.T) []wire.NamedTensor {
	var all []wire.NamedTensor
	for i := range rapid.IntRange(0, 3).Draw(t, "tensors") {
		all = append(all, wire.NamedTensor{Name: string(rune('a' + i)), Tensor: anyTensor(t)})
	}
	return all
}

func requireSame(t require.TestingT, want, got []wire.NamedTensor) {
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Name, got[i].Name)
		require.Equal(t, want[i].Datatype, got[i].Datatype)
		require.Equal(t, append([]int64{}, want[i].Shape...), append([]int64{}, got[i].Shape...))
		require.Equal(t, append([]byte{}, want[i].Data...), append([]byte{}, got[i].Data...))
	}
}

func TestBinaryRequestsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &wire.InferRequest{ID: rapid.String().Draw(t, "id"), Inputs: named(t), Outputs: []string{"y", "z"}}
		q.Frame = rapid.SampledFrom([]wire.Frame{{}, {Kind: "fast"}, {Stream: "a", Kind: "fast", First: true}, {Stream: "é\"", Last: true}}).Draw(t, "frame")
		timeout := time.Duration(rapid.IntRange(0, 1e9).Draw(t, "us")) * time.Microsecond
		body, header, err := EncodeRequest(q, timeout)
		require.NoError(t, err)
		c, err := DecodeRequest(body, header)
		require.NoError(t, err)
		require.Equal(t, timeout, c.Timeout)
		require.Equal(t, q.Outputs, c.Request.Outputs)
		require.Equal(t, q.Frame, c.Request.Frame)
		require.True(t, c.AsBinary("y"))
		requireSame(t, q.Inputs, c.Request.Inputs)
	})
}

func TestResponsesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &wire.InferResponse{ID: "7", Pipeline: "p", Generation: 3, Elapsed: 5 * time.Millisecond, Outputs: named(t)}
		r.Stages = []wire.Stage{{Module: "m", Items: 2, Batch: 4, Critical: true, Queue: 1, Wait: 2, Compute: 3, Transfer: 4}}
		binary := func(name string) bool {
			for _, o := range r.Outputs {
				if o.Name == name && (o.Datatype == wire.FP16 || o.Datatype == wire.BF16 || unreadable(o.Tensor)) {
					return true
				}
			}
			return name == "b"
		}
		body, header, err := EncodeResponse(r, binary)
		require.NoError(t, err)
		got, err := DecodeResponse(body, header)
		require.NoError(t, err)
		requireSame(t, r.Outputs, got.Outputs)
		require.Equal(t, r.Stages, got.Stages)
		require.Equal(t, []any{"7", "p", 3, r.Elapsed}, []any{got.ID, got.Pipeline, got.Generation, got.Elapsed})
	})
}

// unreadable reports that JSON cannot carry the tensor.
func unreadable(t wire.Tensor) bool {
	_, err := appendData(nil, &t)
	return err != nil
}

func TestJSONData(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       wire.Tensor
		err        string
	}{
		{"flat", `{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2.5,-3e2,4]}]}`, wire.FromFloat32([]float32{1, 2.5, -300, 4}, 2, 2), ""},
		{"nested", `{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1, 2],[ 3,4 ]]}]}`, wire.FromFloat32([]float32{1, 2, 3, 4}, 2, 2), ""},
		{"strings", `{"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","data":["a,]\"b","ü\u00e9"]}]}`, wire.FromStrings([]string{`a,]"b`, "üé"}), ""},
		{"int64", `{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[-9223372036854775808]}]}`, wire.FromInt64([]int64{math.MinInt64}), ""},
		{"bool", `{"inputs":[{"name":"x","shape":[2],"datatype":"BOOL","data":[true,0]}]}`, wire.Tensor{Datatype: "BOOL", Shape: []int64{2}, Data: []byte{1, 0}}, ""},
		{"no rows", `{"inputs":[{"name":"x","shape":[0,4],"datatype":"FP32","data":[]}]}`, wire.FromFloat32(nil, 0, 4), ""},
		{"range", `{"inputs":[{"name":"x","shape":[1],"datatype":"UINT8","data":[256]}]}`, wire.Tensor{}, `input "x": 256 is not a value of UINT8`},
		{"kind", `{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":["1"]}]}`, wire.Tensor{}, `not a value of INT32`},
		{"null", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[null]}]}`, wire.Tensor{}, "only values of FP32"},
		{"object", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":{"a":1}}]}`, wire.Tensor{}, "must be an array"},
		{"half", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP16","data":[1]}]}`, wire.Tensor{}, "send it as binary data"},
		{"few", `{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[1]}]}`, wire.Tensor{}, "needs 3 elements"},
		{"datatype", `{"inputs":[{"name":"x","shape":[3],"datatype":"FLOAT","data":[1]}]}`, wire.Tensor{}, `unknown datatype "FLOAT"`},
		{"no name", `{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}`, wire.Tensor{}, "input 1 has no name"},
		{"no data", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}`, wire.Tensor{}, "neither data nor binary_data_size"},
		{"size", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`, wire.Tensor{}, "0 bytes of binary data are left"},
		{"not JSON", `{"inputs":`, wire.Tensor{}, "not valid JSON"},
		{"timeout", `{"parameters":{"timeout":-1},"inputs":[]}`, wire.Tensor{}, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call, err := DecodeRequest([]byte(c.body), -1)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, wire.ErrInvalid)
				return
			}
			require.NoError(t, err)
			requireSame(t, []wire.NamedTensor{{Name: "x", Tensor: c.want}}, call.Request.Inputs)
		})
	}
}

func TestBinaryPartMustFit(t *testing.T) {
	head := `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`
	_, err := DecodeRequest([]byte(head+"1234"), len(head))
	require.NoError(t, err)
	_, err = DecodeRequest([]byte(head+"12345"), len(head))
	require.ErrorContains(t, err, "1 bytes of binary data belong to no input")
	_, err = DecodeRequest([]byte(head), len(head)+1)
	require.ErrorContains(t, err, HeaderLength)
	_, err = ParseHeaderLength("-4")
	require.ErrorContains(t, err, HeaderLength)
}

func TestErrorsRoundTrip(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeDeadline, wire.CodeOverloaded, wire.CodeInfeasible, wire.CodeUnavailable, wire.CodeInvalid, wire.CodeCanceled, wire.CodeNotFound, wire.CodeInternal} {
		want := &wire.Error{Code: code, Reason: "why", Stage: "m", Budget: time.Second, Elapsed: time.Millisecond, Starting: code == wire.CodeUnavailable, Cause: map[wire.Code]wire.Cause{wire.CodeOverloaded: wire.CauseTooFast}[code]}
		got := DecodeError(Status(code), EncodeError(want))
		require.Equal(t, want, got)
		require.True(t, errors.Is(got, want.Unwrap()))
		foreign := DecodeError(Status(code), []byte("<html>no"))
		if code != wire.CodeInfeasible {
			require.Equal(t, code, foreign.Code)
		}
		require.Contains(t, foreign.Reason, "<html>no")
	}
}

func TestMetadataRoundTrips(t *testing.T) {
	want := &wire.Metadata{
		Pipeline: "p", Platform: Platform, Generation: 4, Ready: true, SLO: time.Second,
		Kinds:   []wire.Kind{{Name: "fast", Streams: 8, FrameRate: 25, Jitter: time.Millisecond}, {Name: "slow", Streams: 40, FrameRate: 5, Spread: true}},
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 3}, Typical: []int64{7, 3}}},
		Outputs: []pipelines.Port{{Name: "y", Datatype: "BYTES", Shape: []int64{}}},
	}
	body, err := EncodeMetadata(want)
	require.NoError(t, err)
	got, err := DecodeMetadata(body)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// FuzzDecodeAbout reads any bytes as what a server says of its models and in errors: errors
// are typed, and metadata that was read can be written, and reads the same.
func FuzzDecodeAbout(f *testing.F) {
	f.Add([]byte(`{"name":"p","versions":["4"],"inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],"parameters":{"ready":true,"slo_ns":5}}`), 200)
	f.Add([]byte(`{"models":["a","b"]}`), 404)
	f.Add([]byte(`{"error":"why","code":"overloaded","stage":"m","budget_ns":5}`), 503)
	f.Add([]byte(`[{"module":"m","items":1,"batch":2,"queue_ns":3}]`), 500)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		defer testkit.WatchStalls(t, len(body))()
		typed := func(err error) {
			if err != nil {
				require.ErrorIs(t, err, wire.ErrInvalid)
			}
		}
		_, err := decodeList(body)
		typed(err)
		_, err = DecodeStages(body)
		typed(err)
		require.NotEmpty(t, DecodeError(status, body).Code)
		m, err := DecodeMetadata(body)
		if typed(err); err != nil {
			return
		}
		again, err := EncodeMetadata(m)
		require.NoError(t, err)
		back, err := DecodeMetadata(again)
		require.NoError(t, err)
		once, err := EncodeMetadata(back)
		require.NoError(t, err)
		require.Equal(t, again, once)
	})
}

func FuzzDecodeRequest(f *testing.F) {
	head := `{"id":"1","inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
	f.Add([]byte(head+"1234"), len(head))
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[2,1],"datatype":"BYTES","data":[["a\""],["b"]]}]}`), -1)
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1e3]}],"parameters":{"timeout":5}}`), -1)
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		defer testkit.WatchStalls(t, len(body))()
		c, err := DecodeRequest(body, max(header, -1))
		if err != nil {
			if !errors.Is(err, wire.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, n, err := EncodeRequest(&c.Request, c.Timeout) // what was read can be written, and reads the same
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRequest(again, n)
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, c.Request.Inputs, back.Request.Inputs)
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"model_name":"p","outputs":[{"name":"y","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"stages":"[]"}}`), -1)
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		defer testkit.WatchStalls(t, len(body))()
		if _, err := DecodeResponse(body, max(header, -1)); err != nil && !errors.Is(err, wire.ErrInvalid) {
			t.Fatal(err)
		}
	})
}
