package grpcapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
)

// hostile is a client that sends arbitrary frames, as far as the flow-control windows allow.
type hostile struct {
	t      *testing.T
	c      net.Conn
	f      *http2.Framer
	next   uint32
	writes sync.Mutex

	mu      sync.Mutex
	changed sync.Cond
	window  map[uint32]int64 // 0 is that of the connection
	first   int64            // window of a stream
	ended   map[uint32]string
}

func attack(t *testing.T, to net.Addr) *hostile {
	c, err := net.Dial("tcp", to.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	h := &hostile{t: t, c: c, f: http2.NewFramer(c, c), next: 1, window: map[uint32]int64{0: 65535}, first: 65535, ended: map[uint32]string{}}
	h.changed.L = &h.mu
	_, err = c.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	require.NoError(t, h.f.WriteSettings())
	go h.listen()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.first == 65535 && h.ended[0] == "" {
		h.changed.Wait() // for what the other side has set
	}
	return h
}

func (h *hostile) listen() {
	in := http2.NewFramer(nil, h.c)
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := in.ReadFrame()
		h.mu.Lock()
		if err != nil {
			h.ended[0] = err.Error()
			h.changed.Broadcast()
			h.mu.Unlock()
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if w, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				h.first = int64(w)
			}
		case *http2.WindowUpdateFrame:
			if _, ok := h.window[frame.StreamID]; !ok {
				h.window[frame.StreamID] = h.first
			}
			h.window[frame.StreamID] += int64(frame.Increment)
		case *http2.RSTStreamFrame:
			if h.ended[frame.StreamID] == "" {
				h.ended[frame.StreamID] = frame.ErrCode.String()
			}
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				if field.Name == "grpc-status" {
					h.ended[frame.StreamID] = "status " + field.Value
				}
			}
		}
		h.changed.Broadcast()
		h.mu.Unlock()
	}
}

// begin begins a call, and is its stream.
func (h *hostile) begin(method string, more ...[2]string) uint32 {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range append([][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "here"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	}, more...) {
		require.NoError(h.t, e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	h.writes.Lock()
	defer h.writes.Unlock()
	id := h.next
	h.next += 2
	all := block.Bytes()
	n := min(len(all), 16<<10)
	require.NoError(h.t, h.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: all[:n], EndHeaders: n == len(all)}))
	for all = all[n:]; len(all) > 0; all = all[n:] {
		n = min(len(all), 16<<10)
		if h.f.WriteContinuation(id, n == len(all), all[:n]) != nil {
			break // the refusal arrived
		}
	}
	return id
}

// bring sends data of a stream, until that has ended: then it is why.
func (h *hostile) bring(id uint32, data []byte) string {
	for len(data) > 0 {
		h.mu.Lock()
		if _, ok := h.window[id]; !ok {
			h.window[id] = h.first
		}
		for h.ended[id] == "" && h.ended[0] == "" && (h.window[0] <= 0 || h.window[id] <= 0) {
			h.changed.Wait()
		}
		if why := h.ended[id] + h.ended[0]; why != "" {
			h.mu.Unlock()
			return why
		}
		n := min(int64(len(data)), 16<<10, h.window[0], h.window[id])
		h.window[0] -= n
		h.window[id] -= n
		h.mu.Unlock()
		h.writes.Lock()
		err := h.f.WriteData(id, false, data[:n])
		h.writes.Unlock()
		if err != nil {
			return err.Error()
		}
		data = data[n:]
	}
	return ""
}

// end waits until a stream has ended, and is why.
func (h *hostile) end(id uint32) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.ended[id] == "" && h.ended[0] == "" {
		h.changed.Wait()
	}
	return h.ended[id] + h.ended[0]
}

// message is the beginning of one of so many bytes, of which the last does not come.
func message(size int) []byte {
	m := make([]byte, messageHead+size-1)
	binary.BigEndian.PutUint32(m[1:], uint32(size))
	return m
}

const (
	byCall   = pb.GRPCInferenceService_ModelInfer_FullMethodName
	byStream = pb.GRPCInferenceService_ModelStreamInfer_FullMethodName
	isLive   = pb.GRPCInferenceService_ServerLive_FullMethodName
	toList   = pb.GRPCInferenceService_RepositoryIndex_FullMethodName

	exhausted, unauthenticated = "status 8", "status 16"
)

// TestMessagesThatNeverEnd count while they come, in frames of any size; the one for which
// there is no room is refused, and the others of the connection go on.
func TestMessagesThatNeverEnd(t *testing.T) {
	for _, method := range []string{byCall, byStream} {
		held := gateway.NewBytes(gateway.ByteLimits{Total: 8 << 20, PerPipeline: 1 << 20})
		h := attack(t, listening(t, &backend{ready: true}, Options{Bytes: held}))
		var last uint32
		for range 10 {
			last = h.begin(method)
			_ = h.bring(last, message(1<<20))
		}
		require.Equal(t, exhausted, h.end(last))
		require.LessOrEqual(t, held.Most(), int64(8<<20))
		_ = h.c.Close()
		require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond, "given back")
	}
}

func TestFramesOfAByteCountForMore(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 256 << 10})
	h := attack(t, listening(t, &backend{ready: true}, Options{Bytes: held}))
	id := h.begin(byCall)
	why := h.bring(id, message(1 << 20)[:messageHead])
	for n := 0; n < 1<<14 && why == ""; n++ {
		why = h.bring(id, []byte{0})
	}
	require.Equal(t, exhausted, h.end(id))
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}

// TestSilentCallsCount for what a call holds itself.
func TestSilentCallsCount(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	h := attack(t, listening(t, &backend{ready: true}, Options{Bytes: held}))
	for range (1 << 20) / perCall {
		h.begin(byStream)
	}
	require.Equal(t, exhausted, h.end(h.begin(byCall)))
	_ = h.c.Close()
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}

func TestMoreMetadataThanMayBe(t *testing.T) {
	h := attack(t, listening(t, &backend{ready: true}, Options{}))
	require.Equal(t, http2.ErrCodeFrameSize.String(), h.end(h.begin(byCall, [2]string{"k", strings.Repeat("v", headers)})))
}

// TestStrangersAreNotListenedTo: nothing is read of a caller that is not admitted, and little
// where anybody is.
func TestStrangersAreNotListenedTo(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 8 << 20})
	to := listening(t, &backend{ready: true}, Options{Bytes: held, Callers: secure.Credentials{Token: "secret"}.Guard()})
	h := attack(t, to)
	for _, method := range []string{byCall, byStream, toList, "/none.Such/Method"} {
		require.Equal(t, unauthenticated, h.end(h.begin(method)), method)
		require.Equal(t, unauthenticated, h.end(h.begin(method, [2]string{"authorization", "Bearer wrong"})), method)
	}
	id := h.begin(isLive)
	_ = h.bring(id, message(1<<20))
	require.Equal(t, exhausted, h.end(id))
	id = h.begin(toList, [2]string{"authorization", "Bearer secret"})
	_ = h.bring(id, message(1<<20))
	require.Equal(t, exhausted, h.end(id), "what brings no tensors is short")

	first := h.begin(isLive)
	for range mostStrangers {
		h.begin(isLive)
	}
	require.Equal(t, exhausted, h.end(first), "the oldest makes room")
	conn, err := grpc.NewClient("passthrough:///"+to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	c := pb.NewGRPCInferenceServiceClient(conn)
	_, err = c.ServerLive(t.Context(), &pb.ServerLiveRequest{})
	require.NoError(t, err)
	_, err = c.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret"), question())
	require.NoError(t, err)
}

// TestMessagesThatDoNotComeInTime are not waited for.
func TestMessagesThatDoNotComeInTime(t *testing.T) {
	c := &conn{}
	defer c.closed()
	begin := func(stream uint32, k *call) *call {
		c.heading = stream
		require.NoError(t, c.begin(context.Background(), nil, k))
		return k
	}
	gone, leave := context.WithCancel(context.Background())
	waits, comes, idle, left := begin(1, &call{waits: true}), begin(3, &call{}), begin(5, &call{}), begin(7, &call{waits: true})
	c.data(3, 10)
	left.Context = gone
	leave()
	for _, k := range c.calls {
		k.since = k.since.Add(-messageTime)
	}
	c.look()
	require.Equal(t, codes.DeadlineExceeded, status.Code(waits.start(gone)))
	require.Equal(t, codes.DeadlineExceeded, status.Code(comes.start(gone)))
	require.NoError(t, idle.start(gone))
	require.True(t, left.over)
	require.NoError(t, idle.read(0, new(gateway.HeldBytes)))
}

// TestWhatIsReadCountsOnce: a message counts while it comes, while its request is under way,
// and no longer; what comes behind it counts on.
func TestWhatIsReadCountsOnce(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	c := &conn{heading: 1}
	k := &call{}
	require.NoError(t, c.begin(context.Background(), held, k))
	c.data(1, 4<<10)
	c.data(1, 4<<10)
	require.Equal(t, int64(perCall+8<<10), held.Now())
	first, second := held.Begin(""), held.Begin("")
	require.NoError(t, k.read(4<<10-messageHead, &first))
	require.Equal(t, int64(perCall+8<<10-messageHead), held.Now())
	require.NoError(t, k.read(4<<10-messageHead, &second))
	first.Release()
	require.Equal(t, int64(perCall+4<<10-messageHead), held.Now())
	second.Release()
	k.end()
	k.end()
	require.Zero(t, held.Now())

	kept := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	over := listening(t, instant(t, gateway.Options{}), Options{Bytes: kept})
	conn := dial(t, over)
	for range 100 {
		_, err := pb.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), question())
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return kept.Now() == 0 }, time.Minute, time.Millisecond)
}

// TestAMessageOfAllThereIsRoomFor is taken in, and of many that together are too large the rest
// is refused, not all.
func TestAMessageOfAllThereIsRoomFor(t *testing.T) {
	const size = 4 << 20
	held := gateway.NewBytes(gateway.ByteLimits{Total: size + 256<<10})
	to := listening(t, &backend{ready: true}, Options{Bytes: held})
	c := pb.NewGRPCInferenceServiceClient(dial(t, to))
	q := question()
	q.ModelVersion = "99" // which is not served, and that is seen when it has been read
	q.Inputs[0].Shape, q.RawInputContents = []int64{size / 4}, [][]byte{make([]byte, size)}
	_, err := c.ModelInfer(t.Context(), q)
	require.Equal(t, codes.NotFound, status.Code(err), "%v", err)

	h := attack(t, to)
	var all []uint32
	for range 8 {
		all = append(all, h.begin(byCall))
	}
	for part := message(size); len(part) > 0; part = part[min(len(part), 64<<10):] {
		for _, id := range all {
			_ = h.bring(id, part[:min(len(part), 64<<10)])
		}
	}
	refused := 0
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		refused = 0
		for _, id := range all {
			if h.ended[id] == exhausted {
				refused++
			}
		}
		return refused >= 7
	}, time.Minute, time.Millisecond)
	require.Equal(t, 7, refused)
}
