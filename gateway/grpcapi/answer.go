package grpcapi

import (
	"context"
	"math/bits"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
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

// count makes answers of inference count as held until they are written, or says that
// there is no room.
func (s *server) count(ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	reply, err := next(ctx, q)
	m, ok := reply.(*pb.ModelInferResponse)
	if !ok || err != nil {
		return reply, err
	}
	if err := ctx.Err(); err != nil {
		return nil, oipgrpc.EncodeError(err) // nobody waits for it
	}
	plain(ctx)
	a, err := s.encode(connOf(ctx), m)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return a, nil
}

func (s *server) encode(c *conn, m *pb.ModelInferResponse) (*answer, error) {
	size := proto.Size(m)
	k := &kept{held: s.options.Bytes.Begin(m.GetModelName()), since: time.Now()}
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
	var err error
	if *a.data, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*a.data)[:0], m); err != nil {
		k.release()
		return nil, err
	}
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

// codec sends answers that are messages already, and anything else as gRPC does.
type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, ok := v.(*answer); ok {
		return mem.BufferSlice{mem.NewBuffer(a.data, a)}, nil
	}
	return c.CodecV2.Marshal(v)
}
