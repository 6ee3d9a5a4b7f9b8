package stream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pair are two ends of a TCP connection.
func pair(t testing.TB) (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func made(text []byte) []byte {
	frame, at := Begin(nil)
	return Finish(append(frame, text...), at)
}

func filled(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n) }

// TestFramesArriveInOrder sends frames of all lengths, at once, corked and later, to who
// reads with a deadline that ends time and again.
func TestFramesArriveInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		near, far := pair(t)
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 1<<18)), 1, 20).Draw(rt, "lengths")
		o := ConnOptions{Buffer: rapid.IntRange(16, 1<<12).Draw(rt, "buffer"), MaxFrame: 1 << 20, Corked: rapid.Bool().Draw(rt, "corked")}
		from, to := NewConn(near, o), NewConn(far, o)
		woken := rapid.Bool().Draw(rt, "woken")
		go func() {
			for i, n := range lengths {
				if i%3 == 2 {
					from.SendLater(made(filled(n)))
				} else {
					from.Send(made(filled(n)))
				}
			}
			from.Flush(time.Minute)
			_ = from.Close()
		}()
		for _, n := range lengths {
			if woken {
				_ = to.SetReadDeadline(time.Unix(1, 0))
			}
			f, err := to.Next()
			for errors.Is(err, os.ErrDeadlineExceeded) {
				_ = to.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
				f, err = to.Next()
			}
			require.NoError(rt, err)
			require.Equal(rt, n, len(f))
			require.Equal(rt, filled(n), append([]byte{}, f...))
		}
		_ = to.SetReadDeadline(time.Time{})
		_, err := to.Next()
		require.ErrorIs(rt, err, io.EOF)
	})
}

// TestWritesDoNotWait has many goroutines send to who does not read: none waits, all
// arrives when that does, and who is too far behind is given up.
func TestWritesDoNotWait(t *testing.T) {
	near, far := pair(t)
	from, to := NewConn(near, ConnOptions{Buffer: 1 << 12}), NewConn(far, ConnOptions{Buffer: 1 << 12, MaxFrame: 1 << 20})
	const goroutines, each, size = 8, 64, 100 << 10
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for range each {
				from.Send(made(bytes.Repeat([]byte{byte(g)}, size)))
			}
		})
	}
	all.Wait() // 50 MiB, more than a socket holds
	got := map[byte]int{}
	for range goroutines * each {
		f, err := to.Next()
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat(f[:1], size), f)
		got[f[0]]++
	}
	require.Len(t, got, goroutines)
	for g, n := range got {
		require.Equal(t, each, n, "of goroutine %d", g)
	}

	near, _ = pair(t)
	from = NewConn(near, ConnOptions{Buffer: 1 << 12, Backlog: 1 << 20})
	for from.Send(made(filled(100 << 10))) {
	}
	_, err := from.Next()
	require.ErrorIs(t, err, errBehind)
}

func TestWrongFrames(t *testing.T) {
	for says, want := range map[string]string{
		"\x05ab":               "unexpected EOF",
		"\x80":                 "unexpected EOF",
		"\xff\xff\xff\xff\x7f": "at most 1000 are allowed",
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80": "no number",
	} {
		near, far := pair(t)
		_, err := near.Write([]byte(says))
		require.NoError(t, err)
		require.NoError(t, near.Close())
		_, err = NewConn(far, ConnOptions{Buffer: 64, MaxFrame: 1000}).Next()
		require.ErrorContains(t, err, want)
	}
}

func TestHeldUntilRelease(t *testing.T) {
	near, far := pair(t)
	from, to := NewConn(near, ConnOptions{Buffer: 64, Held: true}), NewConn(far, ConnOptions{Buffer: 64, MaxFrame: 99})
	from.Send(made([]byte("not this")))
	from.Release(made([]byte("but this")))
	f, err := to.Next()
	require.NoError(t, err)
	require.Equal(t, "but this", string(f))
}

// TestTheOldestStrangerMakesRoom: a new connection is read, however many silent ones are open.
func TestTheOldestStrangerMakesRoom(t *testing.T) {
	var s Strangers
	var ends []net.Conn
	for range mostStrangers + 2 {
		near, far := net.Pipe()
		leave := s.Enter(near)
		if ends = append(ends, far); len(ends) == 1 {
			leave() // it has identified itself
			leave()
		}
	}
	_, err := ends[1].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	for i, far := range ends {
		if i != 1 {
			require.NoError(t, far.SetReadDeadline(time.Unix(1, 0)))
			_, err := far.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, i)
		}
	}
}
