package listen

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	l, err := HTTP("127.0.0.1:0", secure.Credentials{}, 3)
	require.NoError(t, err)
	server := Server(http.HandlerFunc(known))
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	url := "http://" + l.Addr().String()
	ask := func() int { // 0 where the connection was refused before the request was read
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get(url)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		return r.StatusCode
	}
	var idle []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		introduce(t, c)
		idle = append(idle, c)
	}
	refused, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	said, err := io.ReadAll(refused)
	require.NoError(t, err)
	require.Contains(t, string(said), "429 Too Many Requests")
	require.Contains(t, string(said), "--max-connections")
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		return ask() == http.StatusNotFound
	}, 20*time.Second, 10*time.Millisecond, "a connection that is closed makes room")
}

// TestConnectionsBeyondTheLimitAreRefusedOverTLS whichever version of HTTP they prefer.
func TestConnectionsBeyondTheLimitAreRefusedOverTLS(t *testing.T) {
	i := securetest.New(t, "ours").Identity(t)
	l, err := HTTP("127.0.0.1:0", secure.Credentials{Identity: i}, 1)
	require.NoError(t, err)
	server := Server(http.HandlerFunc(known))
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	idle, err := tls.Dial("tcp", l.Addr().String(), i.Client("127.0.0.1"))
	require.NoError(t, err)
	defer idle.Close()
	introduce(t, idle)
	for _, second := range []bool{false, true} {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: i.Client("127.0.0.1"), ForceAttemptHTTP2: second}}
		r, err := c.Get("https://" + l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, r.StatusCode)
		require.NoError(t, r.Body.Close())
	}
}

// known is a handler whose callers have all proven who they are.
func known(w http.ResponseWriter, r *http.Request) {
	CallerOf(r).Place.Prove()
	http.NotFound(w, r)
}

// introduce sends a request to known.
func introduce(t *testing.T, c net.Conn) {
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, r.StatusCode)
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return new(net.UnixAddr) }

// TestIdleStrangersMakeRoom: where one connection more comes than may stay, the stranger that
// has had no request for longest is closed, and no other.
func TestIdleStrangersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(pipes)
		l := Limit(in, 4, Refusal{Tell: say([]byte("full"))})
		arrive := func() (near net.Conn) {
			near, far := net.Pipe()
			in <- far
			return near
		}
		accepted := make(chan net.Conn, 10)
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				accepted <- c
			}
		}()
		closed := func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // fails where it is closed
			_, err := c.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		said := func(c net.Conn) string {
			text, err := io.ReadAll(c)
			require.NoError(t, err)
			return string(text)
		}
		var near []net.Conn
		var places []*Place
		come := func() {
			near = append(near, arrive())
			places = append(places, PlaceOf(<-accepted))
			time.Sleep(10 * time.Millisecond)
		}
		for range 4 {
			come() // 0 to 3
		}
		require.Equal(t, "full", said(arrive()), "all have only just come")
		places[0].Prove()
		places[1].Begin()
		time.Sleep(idleLeast)
		come() // 4
		require.True(t, closed(near[2]), "0 has proven who it is, and 1 is busy")
		places[3].Begin()
		places[3].End()
		places[1].End()
		require.Equal(t, "full", said(arrive()), "these were busy until now, and 4 has only just come")
		time.Sleep(idleLeast)
		come() // 5
		require.True(t, closed(near[4]))
		come() // 6
		require.True(t, closed(near[3]))
		come() // 7
		require.True(t, closed(near[1]))
		require.Equal(t, "full", said(arrive()))
		require.False(t, closed(near[0]))
		for i := range places {
			require.NoError(t, places[i].Close())
			require.NoError(t, places[i].Close(), "or again")
		}
		for range 4 {
			come()
		}
		require.Equal(t, "full", said(arrive()), "each has made room once")
		close(in)
	})
}

// TestHeadsOfStrangersAreFew has strangers send heads that do not end: those that go on beyond
// what all may have sent are closed, those that send little are served, and so is a long head
// of an authenticated caller.
func TestHeadsOfStrangersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(pipes)
		l := limit(in, 1000, Refusal{})
		l.heads = true
		server := Server(http.HandlerFunc(known))
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		defer close(in)
		arrive := func() net.Conn {
			near, far := net.Pipe()
			in <- far
			return near
		}
		friend := arrive()
		introduce(t, friend)
		long := "GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("a", MostHead-1000)
		var all []net.Conn
		for range 2 * mostUnheard / MostHead {
			c := arrive()
			_, _ = io.WriteString(c, long) // which ends early where the other side has closed
			all = append(all, c)
		}
		synctest.Wait()
		require.LessOrEqual(t, l.unheard.Load(), int64(mostUnheard))
		require.Greater(t, l.unheard.Load(), int64(mostUnheard-MostHead), "they get all of it")
		left := 0
		for _, c := range all {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // an error where it is closed
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				left++
			}
		}
		require.Less(t, left, len(all), "the others are closed")
		introduce(t, arrive())
		_, err := io.WriteString(friend, long+"\r\n\r\n")
		require.NoError(t, err)
		r, err := http.ReadResponse(bufio.NewReader(friend), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, r.StatusCode)
		time.Sleep(2 * HeadTime)
		synctest.Wait()
		require.Zero(t, l.unheard.Load(), "all have ended")
	})
}

func TestDescriptors(t *testing.T) {
	require.Positive(t, descriptors())
	require.Equal(t, descriptors() < fewDescriptors, WarnFewDescriptors() != "")
	require.GreaterOrEqual(t, connections(), 16)
}
