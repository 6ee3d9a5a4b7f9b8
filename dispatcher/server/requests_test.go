package server

import (
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// TestMemoryOfRequestsIsUsedAgain has requests of one and of several items end before
// and after their batches come back, in all orders, with numbers that are used again at
// once, and holds that every item starts once, as what it came as.
func TestMemoryOfRequestsIsUsedAgain(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { useAgain(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// TestRequestsFillLinesOfTheCache holds that no request lies in more of them than it must.
func TestRequestsFillLinesOfTheCache(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(peerRequest{})%64)
}

// TestAnItemThatIsSentAgainWaitsOnce: an item that its gateway sends again, because another
// dispatcher has owned the service meanwhile, is queued once, as is the item that has the place
// of one that ended meanwhile, and it is gone with the gateway.
func TestAnItemThatIsSentAgainWaitsOnce(t *testing.T) {
	for _, next := range []uint64{1 << 32, 2 << 32} {
		toldAgain(t, next)
	}
}

func toldAgain(t *testing.T, next uint64) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := New(dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1}), Options{Name: "d", Patience: -1})
		s.Claim()
		of := clustered(1)[0]
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		text, err := json.Marshal(of)
		require.NoError(t, err)
		frames := queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")})
		frames = queue.Append(frames, &queue.Message{Kind: queue.Install, Generation: 1, Text: text})
		for _, item := range []uint64{1 << 32, next} {
			frames = queue.Append(frames, &queue.Message{Kind: queue.Arrive, Generation: 1, Item: item, Size: 1, Left: time.Hour, Timed: true})
		}
		_, err = near.Write(frames)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, s.Loads(of.Name())[0].Held)
		require.NoError(t, near.Close())
		<-served
		require.Zero(t, s.Loads(of.Name())[0].Held)
	})
}

// held is a request that the gateway of the test has.
type held struct {
	number uint64
	items  map[uint64]bool // whether it has started
}

func useAgain(t *testing.T, rng *rand.Rand) {
	began := time.Now()
	d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
	s := New(d, Options{Name: "d", Patience: -1})
	s.Claim()
	of := clustered(1)[0]
	part := &of.Cluster.Parts[0]
	of.Slots, of.Cluster.Dispatch, part.Members = of.Slots[:3], "eager", part.Members[:4]
	near, far := net.Pipe()
	served, attached := make(chan error, 1), make(chan error, len(of.Slots))
	go func() { served <- s.Serve(far) }()
	streams := map[string]attach.Stream{}
	for _, slot := range of.Slots {
		executor, control := attach.Pipe()
		go func() { attached <- s.Attach(control) }()
		require.NoError(t, executor.Send(&attach.Message{Hello: &attach.Hello{Executor: slot.Executor, Pipeline: of.Name(), Hardware: "gpu", MaxBatch: largest}}))
		streams[slot.Executor] = executor
	}
	synctest.Wait()
	var told []queue.Message // of starts
	go hear(near, func(m queue.Message) {
		if m.Kind == queue.Start {
			told = append(told, m)
		}
	})
	write := func(to []byte, m queue.Message) { // and wait until it is handled
		_, err := near.Write(queue.Append(to, &m))
		require.NoError(t, err)
		synctest.Wait()
	}
	text, err := json.Marshal(of)
	require.NoError(t, err)
	write([]byte("hpgq\x05\r\n\r\n"), queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")})
	write(nil, queue.Message{Kind: queue.Install, Generation: 1, Text: text})

	var numbers, slots []uint64 // that are free
	var open []*held            // requests that have not left
	byItem := map[uint64]*held{}
	turns := map[uint64]uint64{}
	var running []queue.Message
	take := func(free *[]uint64, next int) uint64 {
		if n := len(*free); n > 0 {
			last := (*free)[n-1]
			*free = (*free)[:n-1]
			return last
		}
		return uint64(next)
	}
	arrive := func(r *held) {
		slot := take(&slots, len(turns))
		turns[slot]++
		item := turns[slot]<<32 | slot
		r.items[item] = false
		byItem[item] = r
		write(nil, queue.Message{
			Kind: queue.Arrive, Generation: 1, Request: r.number, Item: item, Node: rng.Uint64N(4), Size: 1, Left: time.Hour, Timed: true,
		})
	}
	used := 0
	for range 300 {
		for _, m := range told {
			for _, ref := range m.Items {
				r := byItem[ref.Item]
				require.NotNil(t, r, "an item that is not there was started")
				require.False(t, r.items[ref.Item], "an item was started twice")
				r.items[ref.Item] = true
			}
			running = append(running, m)
		}
		told = nil
		switch k := rng.IntN(8); {
		case k < 3:
			r := &held{number: take(&numbers, used), items: map[uint64]bool{}}
			if r.number == uint64(used) {
				used++
			}
			open = append(open, r)
			for range 1 + rng.IntN(6)/5 { // most have one
				arrive(r)
			}
		case k < 6 && len(running) > 0:
			i := rng.IntN(len(running))
			m := running[i]
			running = append(running[:i], running[i+1:]...)
			require.NoError(t, streams[string(m.Text)].Send(&attach.Message{Done: &attach.Done{Epoch: m.Epoch, Batch: m.Batch, Compute: time.Millisecond}}))
			synctest.Wait()
			for _, ref := range m.Items {
				delete(byItem, ref.Item)
				slots = append(slots, uint64(uint32(ref.Item)))
			}
		case len(open) > 0: // several at once, of those whose items have all started
			var frames []byte
			some := 1 + rng.IntN(2*together)
			open = slices.DeleteFunc(open, func(r *held) bool {
				leaves := some > 0 && !slices.Contains(slices.Collect(maps.Values(r.items)), false)
				if leaves {
					some--
					numbers = append(numbers, r.number)
					frames = queue.Append(frames, &queue.Message{Kind: queue.Leave, Request: r.number})
				}
				return leaves
			})
			if len(frames) > 0 {
				_, err := near.Write(frames)
				require.NoError(t, err)
				synctest.Wait()
			}
		}
	}
	require.Positive(t, used)
	for _, executor := range streams {
		require.NoError(t, executor.Close())
	}
	require.NoError(t, near.Close())
	<-served
	for range streams {
		<-attached
	}
}
