package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire/stream"
)

// all has a message of every kind.
func all() []Message {
	return []Message{
		{Kind: Hello, Role: Gateway, Text: []byte("gw"), Token: []byte("secret")},
		{Kind: Install, Generation: 3, Text: bytes.Repeat([]byte("x"), 300)},
		{Kind: Forget, Generation: 3},
		{Kind: Remove, Text: []byte("traffic")},
		{Kind: Arrive, Generation: 1, Request: 1 << 40, Station: 2, Item: 7<<32 | 5, Node: 1, Size: 3, Age: -time.Millisecond, Left: time.Second, Timed: true, Again: true, Lost: true},
		{Kind: Cancel, Station: 2, Item: 9},
		{Kind: Leave, Request: 4, How: 2},
		{Kind: Release, Text: []byte("detect/1/0")},
		{Kind: Claim, Text: []byte("traffic"), Epoch: 7},
		{Kind: Own, Text: []byte("traffic"), Epoch: 8},
		{Kind: Release, Text: []byte("traffic")},
		{Kind: Start, Text: []byte("detect/1/0"), Epoch: 8, Batch: 5, Part: 1, Parts: 2, Size: 9, Left: -1, Age: 4, Items: []Ref{{1, 2}, {3, 1 << 60}}},
		{Kind: Drop, Station: 1, Item: 2, How: 3},
		{Kind: Fail, Text: []byte("because")},
		{Kind: Ping},
		{Kind: Pong},
		{Kind: Lack, Text: []byte("detect/1/0"), Epoch: 8, Batch: 5, Part: 1, How: Withdrawn},
		{Kind: Missing, Text: []byte("traffic"), How: 2},
		{Kind: Ask, Text: []byte("traffic"), Token: []byte("traffic\x00a"), Again: true, Left: -time.Second},
		{Kind: Shut, Text: []byte("traffic"), Token: []byte("traffic\x00a")},
		{Kind: Told, Text: []byte("traffic"), Epoch: 8},
		{Kind: Placed, Text: []byte("traffic"), Token: []byte("traffic\x00a"), How: PlaceOpen, Size: 40, Left: 7},
	}
}

// inside is a message's frame without its length.
func inside(m *Message) []byte {
	frame := Append(nil, m)
	_, n := binary.Uvarint(frame)
	return frame[n:]
}

func TestMessagesTravel(t *testing.T) {
	require.Len(t, all(), int(kinds)-1, "one of every kind")
	for _, m := range all() {
		frame := Append([]byte("before"), &m)[len("before"):]
		n, k := binary.Uvarint(frame)
		require.EqualValues(t, len(frame)-k, n)
		var got Message
		require.NoError(t, Parse(frame[k:], &got))
		if len(got.Items) == 0 {
			got.Items = nil
		}
		assert.Equal(t, m, got)
		for cut := range len(frame) - k {
			assert.Error(t, Parse(frame[k:k+cut], &got), "kind %d cut at %d", m.Kind, cut)
		}
		assert.Error(t, Parse(append(frame[k:], 0), &got), "kind %d with a byte more", m.Kind)
	}
	assert.ErrorContains(t, Parse([]byte{99}, new(Message)), "does not have")
}

// FuzzParse: what is parsed is written as it was, but for longer encodings of a number, and no
// memory is allocated for what is not there.
func FuzzParse(f *testing.F) {
	for _, m := range all() {
		f.Add(inside(&m))
	}
	f.Add([]byte{byte(Start), 0, 1, 1, 1, 1, 1, 1, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, frame []byte) {
		defer testkit.WatchStalls(t, len(frame))()
		var m, again Message
		if Parse(frame, &m) != nil {
			return
		}
		require.LessOrEqual(t, len(m.Items), len(frame))
		require.NoError(t, Parse(inside(&m), &again))
		require.Equal(t, inside(&m), inside(&again))
	})
}

// end is what Open has returned.
type end struct {
	*Conn
	err error
}

// meet opens both ends of a connection; the far one is the dispatcher.
func meet(t *testing.T, role Role, accept func(*Message) error) (near end, far <-chan end) {
	a, b := net.Pipe()
	done := make(chan end, 1)
	go func() {
		c, err := Open(b, Self{Role: Dispatcher, Name: "d"}, Gateway, accept)
		done <- end{c, err}
	}()
	c, err := Open(a, Self{Role: role, Name: "g", Token: "secret"}, Dispatcher, nil)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return end{c, err}, done
}

func TestManyMessagesInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no pings are sent
		near, other := meet(t, Gateway, nil)
		far := <-other
		require.NoError(t, near.err)
		require.NoError(t, far.err)
		assert.Equal(t, "d", near.Peer)
		assert.Equal(t, "g", far.Peer)
		go func() {
			for i := range uint64(1000) {
				near.Send(&Message{Kind: Cancel, Item: i})
			}
			_ = near.Close()
		}()
		var m Message
		for i := range uint64(1000) {
			require.NoError(t, far.Receive(&m))
			require.Equal(t, i, m.Item)
		}
		require.ErrorIs(t, far.Receive(&m), io.EOF)
		require.NoError(t, far.Close())
	})
}

func TestWrongPeers(t *testing.T) {
	_, other := meet(t, Role(3), nil)
	var wrong *peerError
	err := (<-other).err
	require.ErrorAs(t, err, &wrong)
	assert.ErrorContains(t, err, "it is a role 3, but a gateway is expected there")

	near, other := meet(t, Gateway, func(hello *Message) error {
		assert.Equal(t, "secret", string(hello.Token))
		return errors.New("it has the wrong token")
	})
	require.NoError(t, near.err) // it has sent Hello before it has read ours
	require.ErrorContains(t, near.Receive(new(Message)), "wrong token")
	require.ErrorContains(t, (<-other).err, "wrong token")

	for name, says := range map[string]string{
		"something else answers":   "HTTP/1.1 400 Bad Request\r\n\r\n",
		"closed the connection":    "hp",
		"speaks version 9":         "hpgq\x09\r\n\r\n",
		"at most 16384 are":        "hpgq\x05\r\n\r\n\xff\xff\xff\xff\x7f",
		"did not identify itself":  "hpgq\x05\r\n\r\n\x02\x03\x00",
		"ends before its last":     "hpgq\x05\r\n\r\n\x01\x01",
		"version does not have":    "hpgq\x05\r\n\r\n\x01\x63",
		"is that the port of a di": "",
		"there are too many":       string(Refusal("there are too many")),
	} {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write([]byte(says))
			_ = b.Close()
		}()
		_, err := Open(a, Self{Role: Gateway, Name: "g"}, Dispatcher, nil)
		require.ErrorAs(t, err, &wrong, name)
		assert.ErrorContains(t, err, name)
	}
}

// TestASilentPeer: a connection over which nothing comes any more ends, and two sides that have
// nothing to send stay connected.
func TestASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write(append(preamble[:], Append(nil, &Message{Kind: Hello, Role: Dispatcher})...))
		}()
		var doubted time.Duration
		opened := time.Now()
		doubt := func() { doubted = time.Since(opened) }
		c, err := Open(a, Self{Role: Gateway, Patience: 200 * time.Millisecond, Doubt: doubt}, Dispatcher, nil)
		require.NoError(t, err)
		assert.False(t, c.Doubtful())
		require.ErrorIs(t, c.Receive(new(Message)), stream.ErrSilent)
		assert.True(t, c.Doubtful())
		assert.Equal(t, 100*time.Millisecond, doubted, "when it has not answered the first question")
		require.NoError(t, errors.Join(c.conn.Conn.Close(), b.Close()))
	})
	synctest.Test(t, func(t *testing.T) {
		near, other := meet(t, Gateway, nil)
		far := <-other
		require.NoError(t, errors.Join(near.err, far.err))
		ends := make(chan error, 2)
		for _, c := range []*Conn{near.Conn, far.Conn} {
			go func() { ends <- c.Receive(new(Message)) }()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, ends)
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
		<-ends
		<-ends
	})
}

// TestSendLater holds that a message goes with the next one, in order, or by itself after a
// tenth of a second, or when the connection is closed.
func TestSendLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, other := meet(t, Gateway, nil)
		far := <-other
		require.NoError(t, errors.Join(near.err, far.err))
		synctest.Wait() // until both have written Hello: what is sent meanwhile goes after it at once
		came := make(chan uint64, 16)
		go func() {
			defer close(came)
			var m Message
			for far.Receive(&m) == nil {
				came <- m.Request
			}
		}()
		later := func(n uint64) { near.SendLater(&Message{Kind: Leave, Request: n}) }
		later(1)
		later(2)
		time.Sleep(stream.AtLatest - 1)
		synctest.Wait()
		require.Empty(t, came)
		near.Send(&Message{Kind: Cancel})
		synctest.Wait()
		for _, n := range []uint64{1, 2, 0} {
			require.Equal(t, n, <-came)
		}
		later(3)
		synctest.Wait()
		require.Empty(t, came)
		time.Sleep(stream.AtLatest)
		synctest.Wait()
		require.EqualValues(t, 3, <-came)
		later(4)
		require.NoError(t, near.Close())
		require.EqualValues(t, 4, <-came)
		_, open := <-came
		require.False(t, open)
		require.NoError(t, far.Close())
	})
}
