package grpcapi

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
)

// Memory for answers comes in powers of two, in bytes, so that what it takes is what is
// counted. gRPC tells nobody that it is done with less than smallest; what is larger than
// largest has a piece of its own.
const (
	smallest, largest = 1 << smallestBits, 1 << largestBits

	smallestBits, largestBits = 11, 20
)

// pools have memory of every size between.
var pools = func() mem.BufferPool {
	var sizes []uint8
	for n := uint8(smallestBits); n <= largestBits; n++ {
		sizes = append(sizes, n)
	}
	p, err := mem.NewBinaryTieredBufferPool(sizes...)
	if err != nil {
		panic(err)
	}
	return p
}()

// headRoom is what most answers need in bytes beside the data of their tensors.
const headRoom = 1 << 10

// room is how much memory a message of so many bytes is given.
func room(size int) int {
	if size > largest {
		return size
	}
	return max(smallest, 1<<bits.Len(uint(max(size, 1)-1)))
}

// answer is a message that counts as held until gRPC is done with it, and then gives its
// memory back to the answer, as to a pool. gRPC forgets to when a call is cancelled while
// its answer is on the way; then the collection of garbage finds it.
type answer struct {
	data *[]byte
	kept *kept
}

// Get implements mem.BufferPool.
func (a *answer) Get(n int) *[]byte { return pools.Get(n) }

// Put implements mem.BufferPool.
func (a *answer) Put(data *[]byte) {
	a.kept.release()
	if cap(*data) <= largest {
		pools.Put(data)
	}
}

// encode makes the message of an answer, which counts as held, or says that there is no
// room. One that goes by a stream must not be what gRPC would refuse, which would end that.
func (s *server) encode(c *conn, r *wire.InferResponse, call *oipgrpc.Call, streamed bool) (*answer, error) {
	var head, framed [headRoom]byte
	m, err := oipgrpc.Answer(head[:0], r, call.Raw)
	if err != nil {
		return nil, err
	}
	if streamed {
		m = m.InStream(framed[:0], call.Number)
	}
	size := m.Size()
	if streamed && size > s.options.MaxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, and a message at most %d", size, s.options.MaxMessage)
	}
	k := &kept{held: s.options.Bytes.Begin(r.Pipeline), since: time.Now()}
	if err := k.held.Grow(int64(room(size))); err != nil {
		return nil, err
	}
	a := &answer{kept: k}
	k.answer = a
	if size > largest {
		data := make([]byte, 0, size)
		a.data = &data
	} else {
		a.data = pools.Get(room(size))
	}
	*a.data = m.Append((*a.data)[:0])
	if c != nil {
		c.unread.add(k, c)
	} else {
		k.suspect()
	}
	return a, nil
}

// plain has the answer of a call sent as it is. Otherwise it would be compressed where
// the request was, into memory that nobody counts.
func plain(ctx context.Context) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if z, ok := stream.(interface{ RecvCompress() string }); ok && z.RecvCompress() != "" {
		_ = grpc.SetSendCompressor(ctx, encoding.Identity) // fails where the call is over
	}
}

// codec reads requests with room for them, and sends answers that are messages already, and anything else as gRPC does.
type codec struct {
	oipgrpc.Codec
	copying *sync.Mutex // a long message
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *answer:
		return mem.BufferSlice{mem.NewBuffer(m.data, m)}, nil
	case failure:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.Codec.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*incoming); ok {
		return in.take(data.Len(), c.copying, func(call *oipgrpc.Call) error { return c.Codec.Unmarshal(data, call) })
	}
	return c.Codec.Unmarshal(data, v)
}
