package oipgrpc

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// arrived is a message as gRPC hands it over.
func arrived(b []byte) mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(b)} }

// requireTwins holds what the codecs read to what the library reads of it.
func requireTwins(t require.TestingT, b []byte) (request, answer bool) {
	var c Call
	var q pb.ModelInferRequest
	err := NewCodec().Unmarshal(arrived(bytes.Clone(b)), &c)
	if request = err == nil && proto.Unmarshal(b, &q) == nil; request {
		require.Equal(t, len(b), c.Size)
		want, err := DecodeRequest(&q)
		require.Equal(t, err == nil, c.Err == nil, "%v, %v", err, c.Err)
		if err != nil {
			require.Equal(t, err, c.Err)
		} else {
			same(t, want.Request.Inputs, c.Request.Inputs)
			want.Request.Inputs, c.Request.Inputs = nil, nil
			require.Equal(t, want.Request, c.Request)
			require.Equal(t, []any{want.Version, want.Timeout, want.Raw, want.Number, want.Cancel}, []any{c.Version, c.Timeout, c.Raw, c.Number, c.Cancel})
		}
	}
	var r reply
	var m pb.ModelInferResponse
	err = codec{}.Unmarshal(arrived(bytes.Clone(b)), &r)
	if answer = err == nil && proto.Unmarshal(b, &m) == nil; answer {
		want, err := DecodeResponse(&m)
		require.Equal(t, err == nil, r.err == nil, "%v, %v", err, r.err)
		if err != nil {
			require.Equal(t, err, r.err)
		} else {
			same(t, want.Outputs, r.answer.Outputs)
			want.Outputs, r.answer.Outputs = nil, nil
			require.Equal(t, want, r.answer)
		}
	}
	return request, answer
}

// asked is the message of a request as clients send it, and answered that of an answer.
func asked(t require.TestingT, q *wire.InferRequest, version string, timeout time.Duration) []byte {
	m, err := codec{}.Marshal(&sending{message: &question{q, version, timeout}})
	require.NoError(t, err)
	return m.Materialize()
}

func answered(t require.TestingT, r *wire.InferResponse, raw bool) []byte {
	m, err := Answer(nil, r, raw)
	require.NoError(t, err)
	b := m.Append(nil)
	require.Len(t, b, m.Size())
	return b
}

// anyRequest draws a request as clients of this project send it.
func anyRequest(t *rapid.T) (q *wire.InferRequest, version string, timeout time.Duration) {
	q = &wire.InferRequest{ID: rapid.String().Draw(t, "ID"), Pipeline: rapid.String().Draw(t, "pipeline")}
	for i := range rapid.IntRange(0, 3).Draw(t, "inputs") {
		q.Inputs = append(q.Inputs, anyTensor(t, fmt.Sprint("x", i)))
	}
	q.Outputs = rapid.SliceOfNDistinct(rapid.StringN(1, 9, -1), 0, 2, rapid.ID).Draw(t, "outputs")
	if q.Frame.Stream = rapid.SampledFrom([]string{"", "camera 7", "é"}).Draw(t, "stream"); q.Frame.Stream != "" {
		q.Frame.First, q.Frame.Last = rapid.Bool().Draw(t, "first"), rapid.Bool().Draw(t, "last")
	}
	q.Frame.Kind = rapid.SampledFrom([]string{"", "fast"}).Draw(t, "kind")
	version = rapid.SampledFrom([]string{"", "3"}).Draw(t, "version")
	return q, version, time.Duration(rapid.IntRange(0, 1e6).Draw(t, "timeout")) * time.Microsecond
}

func anyAnswer(t *rapid.T) *wire.InferResponse {
	q, _, elapsed := anyRequest(t)
	r := &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: rapid.IntRange(0, 1e6).Draw(t, "generation"), Outputs: q.Inputs, Elapsed: elapsed, Fresh: rapid.Bool().Draw(t, "fresh")}
	for i := range rapid.IntRange(0, 3).Draw(t, "stages") {
		r.Stages = append(r.Stages, wire.Stage{Module: strings.Repeat("m", 100*i), Items: i, Critical: i > 0, Compute: elapsed})
	}
	return r
}

func TestMessagesAreThoseOfTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, version, timeout := anyRequest(t)
		b := asked(t, q, version, timeout)
		var have pb.ModelInferRequest
		require.NoError(t, proto.Unmarshal(b, &have))
		require.True(t, proto.Equal(EncodeRequest(q, version, timeout), &have))
		ok, _ := requireTwins(t, b)
		require.True(t, ok)

		r := anyAnswer(t)
		raw := rapid.Bool().Draw(t, "raw")
		b = answered(t, r, raw)
		var written pb.ModelInferResponse
		require.NoError(t, proto.Unmarshal(b, &written))
		want, err := EncodeResponse(r, raw)
		require.NoError(t, err)
		require.True(t, proto.Equal(over(t, want, new(pb.ModelInferResponse)), &written))
		_, ok = requireTwins(t, b)
		require.True(t, ok)
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
		require.NoError(t, NewCodec().Unmarshal(arrived(m.Append(nil)), &c))
		require.Equal(t, number, c.Number)
		require.Zero(t, c.Cancel)

		r := anyAnswer(t)
		if m, err = Answer(nil, r, rapid.Bool().Draw(t, "raw")); err != nil {
			t.Fatal(err)
		}
		var call reply
		require.NoError(t, codec{}.Unmarshal(arrived(m.Append(nil)), &call))
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
	require.NoError(t, NewCodec().Unmarshal(arrived(cancellation(7)), &c))
	require.EqualValues(t, 7, c.Cancel)
	var foreign streamed
	b, err := proto.Marshal(&pb.ModelStreamInferResponse{ErrorMessage: "no such model"})
	require.NoError(t, err)
	require.NoError(t, foreign.read(b))
	require.ErrorContains(t, foreign.status, "no such model")
}

// TestDamagedMessages have a field more, one twice, or one that is cut off, or any bytes within.
func TestDamagedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, version, timeout := anyRequest(t)
		b := asked(t, q, version, timeout)
		if rapid.Bool().Draw(t, "answer") {
			b = answered(t, anyAnswer(t), true)
		}
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

// TestTheCodecReadsAnyRequest reports what is wrong with it, too.
func TestTheCodecReadsAnyRequest(t *testing.T) {
	floats := &pb.InferTensorContents{Fp32Contents: []float32{1, 2}}
	for _, m := range []*pb.ModelInferRequest{
		{}, input("FP32", []int64{2}, floats), input("FP32", []int64{3}, floats), EncodeRequest(&wire.InferRequest{Pipeline: "p", Outputs: []string{"y"}}, "1", time.Second),
	} {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		var c Call
		require.NoError(t, NewCodec().Unmarshal(arrived(b), &c))
		want, err := DecodeRequest(m)
		require.Equal(t, err, c.Err)
		require.Equal(t, len(b), c.Size)
		if err == nil {
			require.Equal(t, want.Request, c.Request)
		}
	}
	require.Error(t, NewCodec().Unmarshal(arrived([]byte{0xff}), new(Call)))
}

// TestTextIsUTF8 on both ways: what is not is refused.
func TestTextIsUTF8(t *testing.T) {
	bad := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("\xff")) // a name, of a model or a tensor
	for _, b := range [][]byte{bad, protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), bad), protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), bad)} {
		var c Call
		if err := NewCodec().Unmarshal(arrived(b), &c); err == nil {
			require.ErrorContains(t, c.Err, "UTF-8")
		}
	}
	for _, q := range []wire.InferRequest{{ID: "\xff"}, {Pipeline: "\xff"}, {Outputs: []string{"\xff"}}, {Inputs: []wire.NamedTensor{{Name: "\xff"}}}} {
		_, err := codec{}.Marshal(&sending{message: &question{request: &q}})
		require.ErrorContains(t, err, "UTF-8")
	}
}

// TestTensorsAreNotCopied once a message is in one piece, and what is appended to one of them changes
// no other.
func TestTensorsAreNotCopied(t *testing.T) {
	const wide = 1 << 20
	q := &wire.InferRequest{Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "one", Tensor: wire.FromUint8(make([]byte, wide))}, {Name: "two", Tensor: wire.FromUint8([]byte("two"))}}}
	sent, answer := asked(t, q, "1", time.Second), answered(t, &wire.InferResponse{Pipeline: "p", Outputs: q.Inputs}, true)
	var c Call
	var r reply
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, NewCodec().Unmarshal(arrived(sent), &c))
	require.NoError(t, codec{}.Unmarshal(arrived(answer), &r))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*wide+wide/2))
	for _, of := range [][]wire.NamedTensor{c.Request.Inputs, r.answer.Outputs} {
		_ = append(of[0].Data, "XXXXXXXX"...)
		require.Equal(t, "two", string(of[1].Data))
	}
}

// BenchmarkMessages has what a request costs the client and the server beside its way: its message
// written and read, and that of its answer.
func BenchmarkMessages(b *testing.B) {
	for _, size := range []int{64, 150_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			q := &wire.InferRequest{ID: "17", Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromUint8(make([]byte, size))}}}
			r := &wire.InferResponse{ID: "17", Pipeline: "p", Generation: 1, Elapsed: time.Millisecond, Outputs: q.Inputs[:1]}
			r.Stages = []wire.Stage{{Module: "vehicle", Items: 1, Batch: 4, Queue: time.Millisecond}}
			server, client := NewCodec(), codec{encoding.GetCodecV2(encodingproto.Name)}
			b.ReportAllocs()
			for b.Loop() {
				sent, err := client.Marshal(&sending{message: &question{request: q, timeout: time.Second}})
				require.NoError(b, err)
				var c Call
				require.NoError(b, server.Unmarshal(sent, &c))
				sent.Free()
				var came reply
				require.NoError(b, client.Unmarshal(arrived(answered(b, r, true)), &came))
			}
		})
	}
}
