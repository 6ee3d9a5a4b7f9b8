package oipgrpc

import (
	"time"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// Codec is that of gRPC, which besides reads the message of a request of inference into a
// *Call. What is wrong with a request that is a message is an error of the call.
type Codec struct{ encoding.CodecV2 }

// NewCodec makes one.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(encodingproto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	call, ok := v.(*Call)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize() // the tensors lead to it
	if !call.plain(b) {
		*call = Call{}
		m := new(pb.ModelInferRequest)
		if err := proto.Unmarshal(b, m); err != nil {
			return err
		}
		call.Err = call.decode(m)
	}
	call.Size = len(b)
	return nil
}

// headRoom is what most messages need in bytes beside the data of their tensors.
const headRoom = 512

// codec is that of clients, which besides writes requests of inference and reads their answers,
// and notes what has been sent.
// Its name is empty, so that servers are told of no other than gRPC's.
type codec struct{ encoding.CodecV2 }

// Name implements encoding.CodecV2.
func (codec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	s, ok := v.(*sending)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	s.sent = true // where there is no connection, nobody asks for the message
	var q *question
	switch m := s.message.(type) {
	case *question:
		q = m
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	default:
		return c.CodecV2.Marshal(m)
	}
	var room [headRoom]byte
	m, err := request(room[:0], q.request, q.version, q.timeout, 0)
	if err != nil {
		return nil, err
	}
	size := m.Size()
	if mem.IsBelowBufferPoolingThreshold(size) {
		return mem.BufferSlice{mem.SliceBuffer(m.Append(make([]byte, 0, size)))}, nil
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	*b = m.Append((*b)[:0])
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	var r *reply
	switch m := v.(type) {
	case *reply:
		r = m
	case *streamed:
		return m.read(data.Materialize())
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize() // the tensors lead to it
	if r.answer, _ = readPlain(b); r.answer != nil {
		return nil
	}
	m := new(pb.ModelInferResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	r.answer, r.err = DecodeResponse(m)
	return nil
}

// question is a request of inference on its way to a server, and reply its answer, or what
// is wrong with that.
type (
	question struct {
		request *wire.InferRequest
		version string
		timeout time.Duration
	}
	reply struct {
		answer *wire.InferResponse
		err    error
	}
)
