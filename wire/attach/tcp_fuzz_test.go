package attach

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
)

// FuzzMessages reads any bytes as messages between gateways and executors: what is read can
// be written, and reads the same again.
func FuzzMessages(f *testing.F) {
	now := time.Unix(1000, 0)
	item := [][]wire.Tensor{{wire.FromFloat32([]float32{1, 2}, 2)}, nil}
	for _, m := range []Message{
		{Hello: &Hello{Executor: "e", Pipeline: "p", Module: "m", MaxBatch: 3, Signature: pipelines.Signature{Inputs: []pipelines.Port{{Name: "x", Datatype: wire.FP32, Shape: []int64{-1, 2}}}}}},
		{Batch: &Batch{ID: 7, Items: item, Due: now.Add(time.Second), Part: Part{Epoch: 2, Batch: 3, Parts: 2}}},
		{Result: &Result{ID: 7, Items: item, Errs: []*wire.Error{nil, {Code: wire.CodeInvalid, Reason: "why"}}}},
		{Done: &Done{Epoch: 1, Batch: 2, Failed: 3}},
		{Skip: &Skip{Part: Part{Epoch: 1, Parts: 1}}},
		{Soon: &Soon{ID: 7, Compute: 9}}, {Owner: &Owner{Epoch: 4}}, {Drain: &Drain{Reason: "r"}}, {Ready: &Ready{}}, {Ping: &Ping{}},
	} {
		p, err := Encode(&m, now)
		require.NoError(f, err)
		b, err := proto.Marshal(p)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testkit.WatchStalls(t, len(b))()
		var p pb.Message
		if proto.Unmarshal(b, &p) != nil {
			return
		}
		m, err := Decode(&p, now)
		if err != nil {
			require.ErrorIs(t, err, errEmpty)
			return
		}
		written, err := Encode(m, now)
		require.NoError(t, err)
		back, err := Decode(written, now)
		require.NoError(t, err)
		again, err := Encode(back, now)
		require.NoError(t, err)
		require.True(t, proto.Equal(written, again), "%v became %v", written, again)
	})
}
