package server

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// said makes the messages of the other side of a connection from arbitrary bytes: eight make a
// message of some kind, of small numbers, so that they often name what exists, or existed.
func said(role queue.Role, raw []byte) (frames []byte) {
	frames = queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: role, Text: []byte("other")})
	for ; len(raw) >= 8; raw = raw[8:] {
		small := func(i int, n byte) uint64 { return uint64(raw[i] % n) }
		m := queue.Message{
			Kind: queue.Kind(small(0, 24)), Generation: small(1, 3), Request: small(2, 4), Node: small(3, 2), Size: small(3, 3), How: small(4, 10),
			Station: queue.Station(small(5, 3), small(6, 3)), Item: (1+small(7, 3))<<32 | small(7, 4),
			Epoch: small(1, 4), Batch: small(2, 4), Part: small(3, 3), Parts: small(4, 3), Left: time.Duration(int8(raw[5])) * time.Millisecond,
			Age: time.Duration(int8(raw[6])) * time.Millisecond, Timed: raw[7]&64 != 0, Again: raw[7]&32 != 0, More: raw[7]&16 != 0,
			Text: []byte([]string{"", "p", "q", "e"}[small(6, 4)]),
		}
		for i := range small(4, 4) {
			m.Items = append(m.Items, queue.Ref{Station: m.Station, Item: m.Item + i})
		}
		if m.Kind == queue.Install && raw[7] < 200 {
			m.Text, _ = json.Marshal(version(int(small(1, 3)) + 1))
		}
		if m.Kind == 0 || m.Kind == queue.Fail {
			frames = append(frames, raw[:8]...) // no message at all
			continue
		}
		frames = queue.Append(frames, &m)
	}
	return frames
}

// say writes frames and closes the connection; what the other side sends is discarded.
func say(c net.Conn, frames []byte) {
	go func() {
		_, _ = c.Write(frames)
		_ = c.Close()
	}()
	hear(c, func(queue.Message) {})
}

func clockOf(began time.Time) dispatcher.Options {
	return dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1}
}

// FuzzServe has a gateway send arbitrary messages to a dispatcher that has an executor: nothing
// of it is held once the gateway is gone.
func FuzzServe(f *testing.F) {
	f.Add([]byte{2, 1, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{2, 1, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 1, 64, 5, 1, 1, 0, 0, 0, 0, 16, 3, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		s := New(dispatcher.New(clockOf(time.Now())), Options{Name: "d", Patience: -1})
		s.Claim()
		executor, control := attach.Pipe()
		attached := make(chan error, 1)
		go func() { attached <- s.Attach(control) }()
		require.NoError(t, executor.Send(&attach.Message{Hello: &attach.Hello{Executor: "e", Pipeline: "p", Module: "m", Hardware: "cpu", MaxBatch: 1}}))
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		say(near, said(queue.Gateway, raw))
		<-served
		for _, l := range s.Loads("p") {
			require.Zero(t, l.Held)
		}
		require.NoError(t, executor.Close())
		<-attached
	})
}

// FuzzFollow has a dispatcher send arbitrary messages to a gateway that has items: each is
// given up once at most.
func FuzzFollow(f *testing.F) {
	f.Add([]byte{10, 1, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 12, 1, 0, 0, 1, 0, 0, 0})
	f.Add([]byte{10, 3, 0, 0, 0, 0, 0, 0, 18, 1, 0, 0, 1, 0, 1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 1, 0, 1, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		d, h := follower(time.Now()), &holder{}
		items := []*dispatcher.Item{h.install(t, d, 1), h.install(t, d, 2)}
		finish(d, items[0])
		items = append(items, h.install(t, d, 3))
		near, far := net.Pipe()
		go say(far, said(queue.Dispatcher, raw))
		if conn, err := queue.Open(near, queue.Self{Role: queue.Gateway, Name: "g", Patience: -1}, queue.Dispatcher, nil); err == nil {
			_ = d.Obey(conn, h)
		}
		given := map[*dispatcher.Item]int{}
		for _, it := range h.dropped {
			given[it]++
			require.Equal(t, 1, given[it])
			require.Contains(t, items[1:], it, "it had ended")
		}
	})
}
