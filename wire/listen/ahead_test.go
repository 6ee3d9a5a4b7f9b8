package listen

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsReadAheadIsNotLost sends pieces of all sizes and reads them in others.
func TestWhatIsReadAheadIsNotLost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := Stamp(l)
	rng := rand.New(rand.NewPCG(1, 1))
	size := func() int { return 1 + rng.IntN(1<<rng.IntN(17)) }
	for range 20 {
		client, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		server, err := d.Accept()
		require.NoError(t, err)
		sent := make([]byte, 1<<20)
		for i := range sent {
			sent[i] = byte(rng.Uint32())
		}
		pieces := make(chan []byte, len(sent))
		for rest := sent; len(rest) > 0; {
			n := min(size(), len(rest))
			pieces <- rest[:n]
			rest = rest[n:]
		}
		close(pieces)
		go func() {
			for p := range pieces {
				_, _ = client.Write(p)
			}
			_ = client.Close()
		}()
		var got []byte
		for err = nil; err == nil && len(got) < len(sent)/2; {
			p := make([]byte, size())
			var n int
			n, err = server.Read(p)
			got = append(got, p[:n]...)
		}
		var rest bytes.Buffer
		_, err = io.Copy(&rest, server) // by WriteTo
		require.NoError(t, err)
		got = append(got, rest.Bytes()...)
		require.True(t, bytes.Equal(sent, got))
		require.NoError(t, server.Close())
	}
}

// BenchmarkRequestRead reads what a small request is as a server does: headers by
// 4 KiB, then the body.
func BenchmarkRequestRead(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	d := Stamp(l)
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	defer client.Close()
	server, err := d.Accept()
	require.NoError(b, err)
	defer server.Close()
	request, headers, body := make([]byte, 7<<10), make([]byte, 4<<10), make([]byte, 3<<10)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = client.Write(request)
		_, _ = io.ReadFull(server, headers)
		_, _ = io.ReadFull(server, body)
	}
}
