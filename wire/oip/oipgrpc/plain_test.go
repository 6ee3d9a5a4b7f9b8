package oipgrpc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// requireTwins holds what is read without the library to what is read with it.
func requireTwins(t require.TestingT, b []byte) (request, answer bool) {
	var c Call
	if request = c.plain(b); request {
		var m pb.ModelInferRequest
		require.NoError(t, proto.Unmarshal(b, &m))
		want, err := DecodeRequest(&m)
		require.NoError(t, err)
		same(t, want.Request.Inputs, c.Request.Inputs)
		c.Request.Inputs = want.Request.Inputs
		require.Equal(t, want.Request, c.Request)
		require.Equal(t, []any{want.Version, want.Timeout, want.Raw}, []any{c.Version, c.Timeout, c.Raw})
	}
	if r, _ := readPlain(b); r != nil {
		answer = true
		var m pb.ModelInferResponse
		require.NoError(t, proto.Unmarshal(b, &m))
		want, err := DecodeResponse(&m)
		require.NoError(t, err)
		same(t, want.Outputs, r.Outputs)
		r.Outputs = want.Outputs
		require.Equal(t, want, r)
	}
	return request, answer
}

// anyRequest draws a request as clients of this project send it.
func anyRequest(t *rapid.T) (q *wire.InferRequest, version string, timeout time.Duration) {
	q = &wire.InferRequest{ID: rapid.String().Draw(t, "ID"), Pipeline: rapid.String().Draw(t, "pipeline")}
	for i := range rapid.IntRange(0, 3).Draw(t, "inputs") {
		q.Inputs = append(q.Inputs, anyTensor(t, fmt.Sprint("x", i)))
	}
	q.Outputs = rapid.SliceOfNDistinct(rapid.StringN(1, 9, -1), 0, 2, rapid.ID).Draw(t, "outputs")
	version = rapid.SampledFrom([]string{"", "3"}).Draw(t, "version")
	return q, version, time.Duration(rapid.IntRange(0, 1e6).Draw(t, "timeout")) * time.Microsecond
}

func anyAnswer(t *rapid.T) *wire.InferResponse {
	q, _, elapsed := anyRequest(t)
	r := &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: rapid.IntRange(0, 1e6).Draw(t, "generation"), Outputs: q.Inputs, Elapsed: elapsed}
	for i := range rapid.IntRange(0, 3).Draw(t, "stages") {
		r.Stages = append(r.Stages, wire.Stage{Module: strings.Repeat("m", 100*i), Items: i, Critical: i > 0, Compute: elapsed})
	}
	return r
}

func TestPlainMessagesAreThoseOfTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, version, timeout := anyRequest(t)
		m, err := request(make([]byte, rapid.IntRange(0, headRoom).Draw(t, "room")), q, version, timeout, 0)
		require.NoError(t, err)
		b := m.Append(nil)
		require.Len(t, b, m.Size())
		var have pb.ModelInferRequest
		require.NoError(t, proto.Unmarshal(b, &have))
		require.True(t, proto.Equal(EncodeRequest(q, version, timeout), &have))
		ok, _ := requireTwins(t, b)
		require.True(t, ok)

		r := anyAnswer(t)
		raw := rapid.Bool().Draw(t, "raw")
		if m, err = Answer(nil, r, raw); err != nil {
			t.Fatal(err)
		}
		b = m.Append(nil)
		require.Len(t, b, m.Size())
		var written pb.ModelInferResponse
		require.NoError(t, proto.Unmarshal(b, &written))
		want, err := EncodeResponse(r, raw)
		require.NoError(t, err)
		require.True(t, proto.Equal(over(t, want, new(pb.ModelInferResponse)), &written))
		if _, ok = requireTwins(t, b); raw {
			require.True(t, ok)
		}
	})
}

// By a stream a request has its number besides, and an answer is what a call would have got.
func TestMessagesByAStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, version, timeout := anyRequest(t)
		number := rapid.Int64Min(0).Draw(t, "number")
		m, err := request(nil, q, version, timeout, number)
		require.NoError(t, err)
		var c Call
		require.NoError(t, NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(m.Append(nil))}, &c))
		require.Equal(t, number, c.Number)
		require.Zero(t, c.Cancel)

		r := anyAnswer(t)
		if m, err = Answer(nil, r, rapid.Bool().Draw(t, "raw")); err != nil {
			t.Fatal(err)
		}
		var call reply
		require.NoError(t, codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(m.Append(nil))}, &call))
		m = m.InStream(make([]byte, rapid.IntRange(0, headRoom).Draw(t, "room")), number)
		b := m.Append(nil)
		require.Len(t, b, m.Size())
		var came streamed
		require.NoError(t, came.read(b))
		require.Equal(t, streamed{number: number, answer: call.answer, err: call.err}, came)
		came = streamed{}
		require.NoError(t, came.slow(b))
		require.Equal(t, streamed{number: number, answer: call.answer, err: call.err}, came)

		failed := wire.Errorf(wire.CodeOverloaded, "m", "%s", rapid.String().Draw(t, "reason"))
		came = streamed{}
		require.NoError(t, came.read(Failure(&c, failed)))
		require.Equal(t, c.Number, came.number)
		require.Equal(t, failed, DecodeError(came.status))
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		_ = new(streamed).read(append(b[:at:at], rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes")...))
	})
	var c Call
	require.NoError(t, NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(cancellation(7))}, &c))
	require.EqualValues(t, 7, c.Cancel)
	var foreign streamed
	b, err := proto.Marshal(&pb.ModelStreamInferResponse{ErrorMessage: "no such model"})
	require.NoError(t, err)
	require.NoError(t, foreign.read(b))
	require.ErrorContains(t, foreign.status, "no such model")
}

// TestWhatIsNotPlain is read by the library, from messages with a field more, one twice, one
// that is cut off, and with any bytes.
func TestWhatIsNotPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, version, timeout := anyRequest(t)
		m, err := request(nil, q, version, timeout, 0)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "answer") {
			m, err = Answer(nil, anyAnswer(t), true)
			require.NoError(t, err)
		}
		b := m.Append(nil)
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			b = append(b, b[:at]...)
		case 1:
			b = b[:at]
		case 2:
			b = append(append(b[:at:at], rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes")...), b[at:]...)
		case 3:
			field := rapid.IntRange(1, 9).Draw(t, "field")
			b = protowire.AppendString(protowire.AppendTag(b, protowire.Number(field), protowire.BytesType), rapid.String().Draw(t, "value"))
		}
		requireTwins(t, b)
	})
}

// TestTheCodecReadsAnyRequest reads what is plain and what is not, and reports what is wrong
// as of old.
func TestTheCodecReadsAnyRequest(t *testing.T) {
	floats := &pb.InferTensorContents{Fp32Contents: []float32{1, 2}}
	for _, m := range []*pb.ModelInferRequest{
		{}, input("FP32", []int64{2}, floats), input("FP32", []int64{3}, floats), EncodeRequest(&wire.InferRequest{Pipeline: "p", Outputs: []string{"y"}}, "1", time.Second),
	} {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		var c Call
		require.NoError(t, NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &c))
		want, err := DecodeRequest(m)
		require.Equal(t, err, c.Err)
		require.Equal(t, len(b), c.Size)
		if err == nil {
			require.Equal(t, want.Request, c.Request)
		}
	}
	require.Error(t, NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer([]byte{0xff})}, new(Call)))
}

func TestTextIsUTF8(t *testing.T) {
	for _, q := range []wire.InferRequest{{ID: "\xff"}, {Pipeline: "\xff"}, {Outputs: []string{"\xff"}}, {Inputs: []wire.NamedTensor{{Name: "\xff"}}}} {
		_, err := codec{}.Marshal(&sending{message: &question{request: &q}})
		require.ErrorContains(t, err, "UTF-8")
	}
}
