package oipgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

var datatypes = []string{
	wire.Bool, wire.Uint8, wire.Uint16, wire.Uint32, wire.Uint64, wire.Int8, wire.Int16, wire.Int32, wire.Int64,
	wire.FP16, wire.BF16, wire.FP32, wire.FP64, wire.Bytes,
}

// anyTensor draws a sound tensor.
func anyTensor(t *rapid.T, name string) wire.NamedTensor {
	x := wire.NamedTensor{Name: name}
	x.Datatype = rapid.SampledFrom(datatypes).Draw(t, "datatype")
	x.Shape = rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 3).Draw(t, "shape")
	n := x.Len()
	if x.Datatype == wire.Bytes {
		x.Data = wire.FromStrings(rapid.SliceOfN(rapid.String(), n, n).Draw(t, "texts")).Data
		return x
	}
	size := n * wire.Size(x.Datatype)
	x.Data = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
	if x.Datatype == wire.Bool {
		for i := range x.Data {
			x.Data[i] &= 1
		}
	}
	return x
}

func TestRequestsAndAnswersComeBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &wire.InferRequest{ID: "7", Pipeline: "p", Outputs: []string{"y"}}
		for i := range rapid.IntRange(1, 3).Draw(t, "inputs") {
			q.Inputs = append(q.Inputs, anyTensor(t, fmt.Sprint("x", i)))
		}
		c, err := DecodeRequest(over(t, EncodeRequest(q, "3", time.Second), new(pb.ModelInferRequest)))
		require.NoError(t, err)
		require.True(t, c.Raw)
		require.Equal(t, time.Second, c.Timeout)
		require.Equal(t, "3", c.Version)
		require.Equal(t, q.Outputs, c.Request.Outputs)
		same(t, q.Inputs, c.Request.Inputs)

		r := &wire.InferResponse{ID: "7", Pipeline: "p", Generation: 3, Elapsed: 9, Fresh: true, Outputs: q.Inputs, Stages: []wire.Stage{{Module: "m", Items: 1, Compute: 9}}}
		m, err := EncodeResponse(r, rapid.Bool().Draw(t, "raw"))
		require.NoError(t, err)
		back, err := DecodeResponse(over(t, m, new(pb.ModelInferResponse)))
		require.NoError(t, err)
		same(t, r.Outputs, back.Outputs)
		back.Outputs = r.Outputs
		require.Equal(t, r, back)
	})
}

// over sends a message over the wire.
func over[M proto.Message](t require.TestingT, m, to M) M {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, to))
	return to
}

func same(t require.TestingT, want, have []wire.NamedTensor) {
	require.Len(t, have, len(want))
	for i := range want {
		require.Equal(t, want[i].Name, have[i].Name)
		require.Equal(t, want[i].Datatype, have[i].Datatype)
		require.True(t, slices.Equal(want[i].Shape, have[i].Shape))
		require.Equal(t, string(want[i].Data), string(have[i].Data))
	}
}

func input(datatype string, shape []int64, c *pb.InferTensorContents) *pb.ModelInferRequest {
	return &pb.ModelInferRequest{ModelName: "p", Inputs: []*pb.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: datatype, Shape: shape, Contents: c}}}
}

func TestTypedContents(t *testing.T) {
	for _, c := range []struct {
		datatype string
		contents *pb.InferTensorContents
		want     []byte
	}{
		{wire.Bool, &pb.InferTensorContents{BoolContents: []bool{true, false}}, []byte{1, 0}},
		{wire.Int8, &pb.InferTensorContents{IntContents: []int32{-1, 127}}, []byte{255, 127}},
		{wire.Uint16, &pb.InferTensorContents{UintContents: []uint32{1, 65535}}, []byte{1, 0, 255, 255}},
		{wire.Int64, &pb.InferTensorContents{Int64Contents: []int64{-1, 2}}, []byte{255, 255, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 0, 0}},
		{wire.FP32, &pb.InferTensorContents{Fp32Contents: []float32{1, -2}}, []byte{0, 0, 128, 63, 0, 0, 0, 192}},
		{wire.Bytes, &pb.InferTensorContents{BytesContents: [][]byte{[]byte("a"), {}}}, []byte{1, 0, 0, 0, 'a', 0, 0, 0, 0}},
	} {
		got, err := DecodeRequest(input(c.datatype, []int64{2}, c.contents))
		require.NoError(t, err, c.datatype)
		assert.Equal(t, c.want, got.Request.Inputs[0].Data, c.datatype)
		assert.False(t, got.Raw)
	}
}

func TestBadRequests(t *testing.T) {
	floats := &pb.InferTensorContents{Fp32Contents: []float32{1, 2}}
	raw := input("FP32", []int64{2}, nil)
	raw.RawInputContents = [][]byte{make([]byte, 8), nil}
	both := input("FP32", []int64{2}, floats)
	both.RawInputContents = [][]byte{make([]byte, 8)}
	late := input("FP32", []int64{2}, floats)
	late.Parameters = map[string]*pb.InferParameter{"timeout": {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "1s"}}}
	twice := input("FP32", []int64{2}, floats)
	twice.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}, {Name: "y"}}
	begins := input("FP32", []int64{2}, floats)
	begins.Parameters = map[string]*pb.InferParameter{
		"sequence_id":    {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "a"}},
		"sequence_start": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 1}},
	}
	for want, m := range map[string]*pb.ModelInferRequest{
		"sequence_start must be true or false": begins,
		"1 inputs and 2 raw_input_contents":    raw,
		"both contents and raw":                both,
		"whole number of microseconds":         late,
		`output "y" is asked for twice`:        twice,
		"needs 3 elements":                     input("FP32", []int64{3}, floats),
		"needs 2 elements":                     input("FP64", []int64{2}, floats),
		`unknown datatype "FP31"`:              input("FP31", []int64{2}, floats),
		"FP16 has no typed contents":           input("FP16", []int64{2}, floats),
		"128 is not a value of INT8":           input("INT8", []int64{1}, &pb.InferTensorContents{IntContents: []int32{128}}),
		"256 is not a value of UINT8":          input("UINT8", []int64{1}, &pb.InferTensorContents{UintContents: []uint32{256}}),
		"negative dimension":                   input("FP32", []int64{-2}, floats),
		"negative dimension or too many":       input("FP32", []int64{1 << 40, 1 << 40}, floats),
		"input 1 has no name":                  {Inputs: []*pb.ModelInferRequest_InferInputTensor{{Datatype: "FP32"}}},
		"an output that is asked for has no ":  {Outputs: []*pb.ModelInferRequest_InferRequestedOutputTensor{{}}},
	} {
		_, err := DecodeRequest(m)
		require.ErrorIs(t, err, wire.ErrInvalid, want)
		assert.ErrorContains(t, err, want)
	}
}

func TestErrorsComeBackWhole(t *testing.T) {
	for _, code := range []wire.Code{
		wire.CodeDeadline, wire.CodeOverloaded, wire.CodeInfeasible, wire.CodeUnavailable,
		wire.CodeInvalid, wire.CodeCanceled, wire.CodeNotFound, wire.CodeInternal,
	} {
		e := &wire.Error{Code: code, Reason: "because", Stage: "m", Budget: 5, Elapsed: 7, Starting: code == wire.CodeUnavailable, Cause: map[wire.Code]wire.Cause{wire.CodeOverloaded: wire.CauseTooFast}[code]}
		err := EncodeError(fmt.Errorf("wrapped: %w", e))
		assert.Equal(t, codes.Code(oip.GRPC(code)), status.Code(err))
		assert.Equal(t, e, DecodeError(err))
	}
	assert.Equal(t, codes.DeadlineExceeded, status.Code(EncodeError(context.DeadlineExceeded)))
	assert.Equal(t, codes.Internal, status.Code(EncodeError(errors.New("x"))))
	e := DecodeError(status.Error(codes.Unavailable, "gone"))
	assert.Equal(t, &wire.Error{Code: wire.CodeUnavailable, Reason: "gone"}, e)
}

func TestMetadataComesBackWhole(t *testing.T) {
	m := &wire.Metadata{Pipeline: "p", Generation: 4, Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}}, Outputs: []pipelines.Port{}}
	back := decodeMetadata(EncodeMetadata(m))
	m.Platform = "harpagon_pipeline"
	assert.Equal(t, m, back)
}

// FuzzDecode reads any bytes as messages.
func FuzzDecode(f *testing.F) {
	q := &wire.InferRequest{Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2}, 2)}}}
	b, err := proto.Marshal(EncodeRequest(q, "", 0))
	require.NoError(f, err)
	f.Add(b)
	f.Add(answered(f, &wire.InferResponse{Pipeline: "p", Outputs: q.Inputs, Elapsed: 9, Stages: []wire.Stage{{Module: "m"}}}, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testkit.WatchStalls(t, len(b))()
		requireTwins(t, b)
		var m pb.ModelInferRequest
		if proto.Unmarshal(b, &m) == nil {
			if c, err := DecodeRequest(&m); err == nil {
				for _, in := range c.Request.Inputs {
					require.NoError(t, in.Validate())
				}
			} else {
				require.ErrorIs(t, err, wire.ErrInvalid)
			}
		}
		var r pb.ModelInferResponse
		if proto.Unmarshal(b, &r) == nil {
			_, _ = DecodeResponse(&r)
		}
	})
}
