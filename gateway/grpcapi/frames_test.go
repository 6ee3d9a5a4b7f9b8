package grpcapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// Frames of a stream are answered in the order in which they came, dropped ones among them; those of
// others do not wait for them.
func TestFramesAreAnsweredInOrder(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]wire.Frame{}
	came := map[string]int{}
	b := &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		var k int
		_, _ = fmt.Sscanf(q.ID[strings.IndexByte(q.ID, '/'):], "/%d", &k)
		mu.Lock()
		seen[q.ID] = q.Frame
		if came[q.Frame.Stream] != k {
			t.Errorf("frame %s comes after %d others", q.ID, came[q.Frame.Stream])
		}
		came[q.Frame.Stream]++
		mu.Unlock()
		q.InLine()
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		if rand.IntN(4) == 0 {
			return nil, wire.Errorf(wire.CodeOverloaded, "", "dropped")
		}
		return (&backend{}).Infer(ctx, q)
	}}
	s, err := serve(t, b, Options{}).ModelStreamInfer(t.Context())
	require.NoError(t, err)
	const streams, frames = 5, 40
	go func() {
		for k := range frames {
			for i := range streams {
				q := question()
				q.Id = fmt.Sprintf("%d/%d", i, k)
				q.Parameters = map[string]*pb.InferParameter{
					"sequence_id":    {ParameterChoice: &pb.InferParameter_Uint64Param{Uint64Param: uint64(i + 1)}},
					"sequence_start": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: k == 0}},
					"sequence_end":   {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: k == frames-1}},
				}
				if k == 0 {
					q.Parameters["stream_kind"] = &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: "fast"}}
				}
				_ = s.Send(q)
			}
		}
		_ = s.CloseSend()
	}()
	next := map[string]int{}
	for range streams * frames {
		m, err := s.Recv()
		require.NoError(t, err)
		var stream string
		var k int
		id := m.GetInferResponse().GetId()
		for i := range id {
			if id[i] == '/' {
				stream = id[:i]
				_, err = fmt.Sscan(id[i+1:], &k)
				require.NoError(t, err)
			}
		}
		require.Equal(t, next[stream], k, "of stream %s", stream)
		next[stream]++
	}
	require.Equal(t, wire.Frame{Stream: "2", Kind: "fast", First: true}, seen["1/0"])
	require.Equal(t, wire.Frame{Stream: "2", Last: true}, seen["1/39"])
}
