package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// frameText is a request as JSON.
func frameText(id string, x int) string {
	return fmt.Sprintf(`{"id":%q,"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[%d,0]}]}`, id, x)
}

func dialSocket(t *testing.T, url string, o *websocket.DialOptions) *websocket.Conn {
	c, _, err := websocket.Dial(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// Answers come in the order of frames, though later ones are done sooner; one that is dropped has its
// error in its place, and the others go on.
func TestFramesByWebSocket(t *testing.T) {
	var names sync.Map
	b := &backend{ready: true}
	var came atomic.Int64
	b.infer = func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		names.Store(q.ID, q.Frame)
		assert.Equal(t, fmt.Sprint(came.Add(1)-1), q.ID, "frames go in as they come")
		q.InLine()
		switch q.ID {
		case "0":
			time.Sleep(20 * time.Millisecond)
		case "2":
			return nil, wire.Errorf(wire.CodeOverloaded, "", "its stream sends more")
		}
		return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Outputs: q.Inputs, Shift: 5}, nil
	}
	bytes := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	url := served(t, New(b, Options{Bytes: bytes}))
	c := dialSocket(t, url+"/v2/models/p/stream?stream=camera+7&kind=fast", nil)
	for i := range 5 {
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(frameText(fmt.Sprint(i), i))))
	}
	head := `{"id":"5","inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true,"sequence_id":"other","stream_kind":"slow","sequence_end":true}}`
	require.NoError(t, c.Write(t.Context(), websocket.MessageBinary, append(append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...), 0, 0, 128, 63, 0, 0, 0, 0)))
	last := strings.Replace(frameText("6", 6), `{"id"`, `{"parameters":{"sequence_end":true,"sequence_id":0},"id"`, 1)
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(last)))
	require.NoError(t, c.Write(t.Context(), websocket.MessageBinary, []byte{1}))
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("no JSON")))
	for i := range 7 {
		kind, body, err := c.Read(t.Context())
		require.NoError(t, err)
		header := -1
		if kind == websocket.MessageBinary {
			header, body = int(binary.BigEndian.Uint32(body)), body[4:]
		}
		assert.Equal(t, i == 5, header >= 0)
		if i == 2 {
			var e struct{ ID, Code, Error string }
			require.NoError(t, json.Unmarshal(body, &e))
			assert.Equal(t, "2", e.ID)
			assert.Equal(t, "overloaded", e.Code)
			continue
		}
		r, err := oip.DecodeResponse(body, header)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(i), r.ID)
		assert.EqualValues(t, 5, r.Shift)
	}
	for _, says := range []string{"begins with the length", "not valid JSON"} {
		_, body, err := c.Read(t.Context())
		require.NoError(t, err)
		assert.Contains(t, string(body), says)
	}
	frame, _ := names.Load("0")
	assert.Equal(t, wire.Frame{Stream: "camera 7", Kind: "fast"}, frame)
	frame, _ = names.Load("6")
	assert.Equal(t, wire.Frame{Stream: "camera 7", Kind: "fast", Last: true}, frame)
	frame, _ = names.Load("5")
	assert.Equal(t, wire.Frame{Stream: "other", Kind: "slow", Last: true}, frame)
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
}

// No more than sixteen frames are under way, however many are sent; what is too large ends the socket,
// and what there is no memory for is refused.
func TestWebSocketsAreBounded(t *testing.T) {
	var under, most atomic.Int64
	gate := make(chan struct{})
	b := &backend{ready: true}
	b.infer = func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-gate
		return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline}, nil
	}
	url := served(t, New(b, Options{MaxBody: 1 << 20, Bytes: gateway.NewBytes(gateway.ByteLimits{Total: 300 << 10})}))
	c := dialSocket(t, url+"/v2/models/p/stream", nil)
	go func() {
		for i := range 64 {
			if c.Write(t.Context(), websocket.MessageText, []byte(frameText(fmt.Sprint(i), i))) != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return under.Load() == socketAhead }, 10*time.Second, time.Millisecond)
	close(gate)
	for i := range 64 {
		_, body, err := c.Read(t.Context())
		require.NoError(t, err)
		assert.Contains(t, string(body), fmt.Sprintf(`"id":"%d"`, i))
	}
	assert.EqualValues(t, socketAhead, most.Load())
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat(" ", 600<<10))))
	_, body, err := c.Read(t.Context())
	require.NoError(t, err)
	assert.Contains(t, string(body), `"code":"overloaded"`)
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(frameText("after", 1))), "the next is taken in")
	_, body, err = c.Read(t.Context())
	require.NoError(t, err)
	assert.Contains(t, string(body), `"id":"after"`)
	_ = c.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat(" ", 2<<20)))
	_, _, err = c.Read(t.Context())
	assert.Equal(t, websocket.StatusMessageTooBig, websocket.CloseStatus(err))
}

// Who sends nothing any more, or a frame that does not end, loses the socket and what it held.
func TestWebSocketsThatFallSilent(t *testing.T) {
	for name, c := range map[string]struct {
		send func(t *testing.T, c *websocket.Conn)
		time time.Duration
	}{
		"between frames": {func(*testing.T, *websocket.Conn) {}, listen.IdleTime},
		"in a frame": {func(t *testing.T, c *websocket.Conn) {
			w, err := c.Writer(t.Context(), websocket.MessageText)
			require.NoError(t, err)
			_, err = io.WriteString(w, frameText("b", 2)+strings.Repeat(" ", 8<<10))
			require.NoError(t, err)
		}, listen.BodyTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{ready: true, infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
					return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline}, nil
				}}
				near, far := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				bytes := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
				go func() {
					done <- Serve(ctx, &once{Conn: far, closed: make(chan struct{})}, New(b, Options{Bytes: bytes}))
				}()
				by := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
				socket := dialSocket(t, "http://h/v2/models/p/stream", &websocket.DialOptions{HTTPClient: &http.Client{Transport: by}})
				require.NoError(t, socket.Write(t.Context(), websocket.MessageText, []byte(frameText("a", 1))))
				_, body, err := socket.Read(t.Context())
				require.NoError(t, err)
				require.Contains(t, string(body), `"id":"a"`)
				began := time.Now()
				c.send(t, socket)
				require.Positive(t, bytes.Now())
				_, _, err = socket.Read(t.Context())
				require.Error(t, err)
				require.InDelta(t, c.time.Seconds(), time.Since(began).Seconds(), 10, "closing takes some seconds")
				_ = socket.CloseNow()
				time.Sleep(time.Minute)
				require.Zero(t, bytes.Now())
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}

func TestWebSocketsAskForCredentials(t *testing.T) {
	credentials := secure.Credentials{Token: "secret"}
	url := served(t, New(&backend{ready: true}, Options{Callers: credentials.Guard()})) + "/v2/models/p/stream"
	_, r, err := websocket.Dial(t.Context(), url, nil)
	require.Error(t, err)
	assert.Equal(t, 401, r.StatusCode)
	header := map[string][]string{"Authorization": {"Bearer secret"}}
	_, r, err = websocket.Dial(t.Context(), strings.Replace(url, "/p/", "/q/", 1), &websocket.DialOptions{HTTPHeader: header})
	require.Error(t, err)
	assert.Equal(t, 404, r.StatusCode)
	_, r, err = websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: map[string][]string{"Authorization": {"Bearer secret"}, "Origin": {"http://elsewhere"}}})
	require.Error(t, err)
	assert.Equal(t, 403, r.StatusCode)
	c := dialSocket(t, url, &websocket.DialOptions{HTTPHeader: header})
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(frameText("a", 1))))
	_, body, err := c.Read(t.Context())
	require.NoError(t, err)
	assert.Contains(t, string(body), `"id":"a"`)
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
}

// A client that is not ours: that of node.
func TestAForeignWebSocket(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	url := strings.Replace(served(t, New(&backend{ready: true}, Options{})), "http", "ws", 1) + "/v2/models/p/stream?stream=node"
	script := `const s = new WebSocket(process.argv[1]); let n = 0;
s.onopen = () => { for (let i = 0; i < 3; i++) s.send(JSON.stringify({id: String(i), inputs: [{name: "x", datatype: "FP32", shape: [2], data: [i, 0]}]})); };
s.onmessage = (m) => { const a = JSON.parse(m.data); console.log(a.id, a.outputs[0].data[0]); if (++n == 3) s.close(1000); };
s.onclose = (e) => { console.log(e.code, e.wasClean); };`
	said, err := exec.Command(node, "--experimental-websocket", "-e", script, url).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(string(exit.Stderr), "bad option") {
		t.Skip("this node has no WebSocket")
	}
	require.NoError(t, err)
	assert.Equal(t, "0 0\n1 1\n2 2\n1000 true\n", string(said))
}

// A gateway that stops answers what it has taken in, and says so.
func TestWebSocketsEndWithTheServer(t *testing.T) {
	gate, begun := make(chan struct{}), make(chan struct{})
	b := &backend{ready: true}
	b.infer = func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		close(begun)
		<-gate
		return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline}, nil
	}
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, New(b, Options{})) }()
	c := dialSocket(t, "http://"+l.Addr().String()+"/v2/models/p/stream", nil)
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(frameText("a", 1))))
	<-begun
	stop()
	close(gate)
	_, body, err := c.Read(t.Context())
	require.NoError(t, err)
	assert.Contains(t, string(body), `"id":"a"`)
	_, _, err = c.Read(t.Context())
	assert.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err))
	require.NoError(t, <-done)
}
