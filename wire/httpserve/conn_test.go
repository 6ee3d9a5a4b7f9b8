package httpserve

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/listen"
)

// identity is a certificate that is good for an hour.
func identity(t testing.TB) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"h"}}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
}

// serving serves h by this package until the test ends.
func serving(t testing.TB, l net.Listener, h http.HandlerFunc) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, h, Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute, ShutdownTime: 10 * time.Second})
	}()
	return func() error {
		cancel()
		return <-done
	}
}

const plainGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func listening(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// TestHangUpsEndRequests has clients that close the connection, and one that only says
// that it sends no more, which is the same to net/http.
func TestHangUpsEndRequests(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("tls %v, half %v", secure, half), func(t *testing.T) {
				l := listening(t)
				at := l.Addr().String()
				if secure {
					l = tls.NewListener(l, identity(t))
				}
				begun, ended := make(chan bool, 1), make(chan error, 1)
				stop := serving(t, l, func(_ http.ResponseWriter, r *http.Request) {
					begun <- r.TLS != nil
					<-r.Context().Done()
					ended <- r.Context().Err()
				})
				below, err := net.Dial("tcp", at)
				require.NoError(t, err)
				c := below
				if secure {
					c = tls.Client(below, &tls.Config{InsecureSkipVerify: true})
				}
				_, err = io.WriteString(c, plainGet+plainGet) // what is not read yet hides nothing
				require.NoError(t, err)
				require.Equal(t, secure, <-begun)
				if half {
					require.NoError(t, below.(*net.TCPConn).CloseWrite())
				} else {
					require.NoError(t, c.Close())
				}
				require.ErrorIs(t, <-ended, context.Canceled)
				_ = below.Close()
				go func() { // the second request, where it was read before the end was seen
					<-begun
					<-ended
				}()
				require.NoError(t, stop())
			})
		}
	}
}

// TestTLS has clients of both versions of HTTP, one whose requests are not plain, and one
// that does not speak TLS.
func TestTLS(t *testing.T) {
	l := listening(t)
	at := l.Addr().String()
	config := identity(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	stop := serving(t, tls.NewListener(l, config), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.TLS != nil && r.TLS.HandshakeComplete)
	})
	for _, c := range []struct {
		method, says string
		two          bool
	}{{"GET", "HTTP/1.1 GET true", false}, {"PUT", "HTTP/1.1 PUT true", false}, {"GET", "HTTP/2.0 GET true", true}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: c.two}
		q, err := http.NewRequest(c.method, "https://"+at, nil)
		require.NoError(t, err)
		r, err := (&http.Client{Transport: transport}).Do(q)
		require.NoError(t, err)
		said, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, c.says, string(said))
		transport.CloseIdleConnections()
	}
	r, err := http.Get("http://" + at)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, r.StatusCode)
	require.NoError(t, stop())
}

// TestNobodyElsesHangUpEndsARequest has one client that waits while others come and go.
func TestNobodyElsesHangUpEndsARequest(t *testing.T) {
	l := listening(t)
	begun, answer := make(chan bool, 100), make(chan bool)
	stop := serving(t, l, func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		select {
		case <-answer:
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		}
	})
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(c, plainGet)
	require.NoError(t, err)
	<-begun
	for range 10 {
		other, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(other, plainGet)
		require.NoError(t, err)
		<-begun
		require.NoError(t, other.Close())
		time.Sleep(lookEvery / 2)
	}
	close(answer)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.NoError(t, c.Close())
	require.NoError(t, stop())
}

// unwatched serves a connection of a pipe by this package, in virtual time.
func unwatched(s *server, far net.Conn) {
	s.watched = func(net.Conn) (*client, bool) { return &client{raw: noFile{}}, true }
	s.take(far)
}

// noFile is of a connection that has no descriptor.
type noFile struct{ syscall.RawConn }

func (noFile) Control(func(uintptr)) error { return errors.ErrUnsupported }

// TestSlowClients holds that a client that sends a head byte by byte loses its connection,
// and so does one that sends nothing, at first or after an answer.
func TestSlowClients(t *testing.T) {
	for name, c := range map[string]struct {
		first, then string
		time        time.Duration
	}{
		"nothing":         {"", "", 10 * time.Second},
		"a slow head":     {"GET / HTTP/1.1\r\n", "A: b\r\n", 10 * time.Second},
		"nothing further": {plainGet, "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				s := newServer(t.Context(), http.NotFoundHandler(), Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute})
				begin := time.Now()
				unwatched(s, far)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, err := io.WriteString(near, c.first)
					for err == nil && c.then != "" {
						time.Sleep(100 * time.Millisecond)
						_, err = io.WriteString(near, c.then)
					}
				}()
				_, err := io.ReadAll(near)
				require.NoError(t, err)
				require.InDelta(t, c.time, time.Since(begin), float64(time.Second))
				require.NoError(t, near.Close())
				<-ended
				s.all.Wait()
				require.Empty(t, s.conns)
				require.Empty(t, s.clients.all)
			})
		})
	}
}

// TestDeadlinesOfHandlers holds that what a handler grants for a body and for an answer
// bounds them.
func TestDeadlinesOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := newServer(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			granted := http.NewResponseController(w)
			require.NoError(t, granted.SetReadDeadline(time.Now().Add(3*time.Second)))
			_, err := io.Copy(io.Discard, r.Body)
			require.NoError(t, granted.SetWriteDeadline(time.Now().Add(5*time.Second)))
			w.Header().Set("Connection", "close")
			if _, unread := w.Write(make([]byte, 1<<20)); err == nil {
				err = unread
			}
			ended <- err
		}), Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute})
		for text, took := range map[string]time.Duration{
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nlate": 8 * time.Second, // both
			plainGet: 5 * time.Second,
		} {
			near, far := net.Pipe()
			unwatched(s, far)
			begin := time.Now()
			_, err := io.WriteString(near, text)
			require.NoError(t, err)
			require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
			require.Equal(t, took, time.Since(begin))
			s.all.Wait()
			require.NoError(t, near.Close())
		}
	})
}

// TestADeadlineIsForOneAnswer has an answer with a deadline, and one behind it that takes
// longer.
func TestADeadlineIsForOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/timed" {
				require.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second)))
				return
			}
			for range 3 {
				if _, err := io.WriteString(w, "more"); err != nil {
					return // the client misses it
				}
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Second)
			}
		}), Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute})
		near, far := net.Pipe()
		unwatched(s, far)
		in := bufio.NewReader(near)
		for _, c := range [][2]string{{"/timed", ""}, {"/", "moremoremore"}} {
			path, want := c[0], c[1]
			_, err := io.WriteString(near, strings.Replace(plainGet, "/", path, 1))
			require.NoError(t, err)
			r, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			said, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, want, string(said))
		}
		require.NoError(t, near.Close())
		s.all.Wait()
	})
}

// TestABodyHasATimeOfItsOwn has a head that comes late, and its body behind it.
func TestABodyHasATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute})
		near, far := net.Pipe()
		unwatched(s, far)
		go func() {
			for _, text := range []string{"POST / HTTP/1.1\r\nHost: h\r\n", "Content-Length: 2\r\n\r\na", "b"} {
				time.Sleep(8 * time.Second)
				_, _ = io.WriteString(near, text)
			}
		}()
		r, err := http.ReadResponse(bufio.NewReader(near), nil)
		require.NoError(t, err)
		said, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "ab", string(said))
		require.NoError(t, near.Close())
		s.all.Wait()
	})
}

// TestStopsWhateverHandlersWaitFor has a handler that waits for its request's end, and a
// client that has sent half a head.
func TestStopsWhateverHandlersWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan bool)
		s := newServer(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			begun <- true
			<-r.Context().Done()
		}), Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute})
		go func() { _ = s.others.Serve(s.handed) }()
		for _, c := range []struct {
			text string
			took time.Duration
			err  error
		}{{plainGet[:8], 0, nil}, {plainGet, 5 * time.Second, context.DeadlineExceeded}} {
			near, far := net.Pipe()
			unwatched(s, far)
			_, err := io.WriteString(near, c.text)
			require.NoError(t, err)
			if c.err != nil {
				<-begun
			}
			synctest.Wait()
			at := time.Now()
			grace, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			require.ErrorIs(t, s.shutdown(grace), c.err)
			require.Equal(t, c.took, time.Since(at))
			cancel()
			require.NoError(t, near.Close())
		}
	})
}

// TestStopsInGoodOrder holds that a stop closes connections that wait, lets a request
// under way finish with an answer that says that it is the last, and ends what takes too
// long.
func TestStopsInGoodOrder(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			begun, answer := make(chan bool), make(chan bool)
			s := newServer(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				begun <- true
				<-answer
			}), Options{HeaderTime: time.Second, IdleTime: time.Minute})
			go func() { _ = s.others.Serve(s.handed) }()
			idle, farIdle := net.Pipe()
			busy, farBusy := net.Pipe()
			unwatched(s, farIdle)
			unwatched(s, farBusy)
			go func() { _, _ = io.WriteString(busy, plainGet) }()
			<-begun
			grace, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- s.shutdown(grace) }()
			_, err := idle.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			if late {
				time.Sleep(6 * time.Second)
				go func() { answer <- true }()
				_, err = busy.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				require.ErrorIs(t, <-stopped, context.DeadlineExceeded)
				return
			}
			answer <- true
			r, err := http.ReadResponse(bufio.NewReader(busy), nil)
			require.NoError(t, err)
			require.True(t, r.Close)
			require.NoError(t, <-stopped)
		})
	}
}

// TestATurnIsGivenBackWhileARequestWaits holds that of a gated listener as many requests
// can wait as come, with bodies and without.
func TestATurnIsGivenBackWhileARequestWaits(t *testing.T) {
	l := listening(t)
	const many = 200
	begun, answer := make(chan bool, many), make(chan bool)
	stop := serving(t, listen.Gate(l), func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- true
		<-answer
	})
	for i := range many {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		text := plainGet
		if size := 100 * i; i%2 == 1 {
			text = fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
		}
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
	}
	for range many {
		<-begun
	}
	close(answer)
	require.NoError(t, stop())
}

// TestAStreamHoldsNoTurn has answers that go on, to requests whose bodies nobody reads, and
// one request more.
func TestAStreamHoldsNoTurn(t *testing.T) {
	l := listening(t)
	begun, answer := make(chan bool, 100), make(chan bool)
	stop := serving(t, listen.Gate(l), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		w.(http.Flusher).Flush()
		begun <- true
		<-answer
	})
	const many = 50
	for range many {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
		require.NoError(t, err)
	}
	for range many {
		<-begun
	}
	r, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	close(answer)
	require.NoError(t, stop())
}

// TestARefusalIsReadWhileABodyIsSent holds that a client that sends a large body gets the
// answer that refuses it.
func TestARefusalIsReadWhileABodyIsSent(t *testing.T) {
	l := listening(t)
	stop := serving(t, l, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	go func() {
		_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 64<<20)
		_, _ = c.Write(make([]byte, 8<<20))
	}()
	time.Sleep(100 * time.Millisecond) // it has begun to send
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
	require.NoError(t, c.Close())
	require.NoError(t, stop())
}
