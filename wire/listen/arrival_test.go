package listen

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = 2 * time.Second

// TestConnectionsKnowWhenDataCame compares the kernel's stamps with the clock
// around the writing, long before the data are read.
func TestConnectionsKnowWhenDataCame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not report arrival times")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := Stamp(l)
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := d.Accept()
	require.NoError(t, err)
	defer server.Close()
	came := Arrival(server)
	require.NotNil(t, Arrival(tls.Server(&gatedConn{Conn: &Place{Conn: server}}, &tls.Config{})), "through TLS and what else is around it")
	require.Zero(t, came(), "nothing has been read")
	buf := make([]byte, 3)
	for begin := time.Now(); came().IsZero(); { // the kernel begins some time after the option is set
		if time.Since(begin) > patience {
			t.Skip("the kernel has not begun to note times")
		}
		_, err = client.Write([]byte("a"))
		require.NoError(t, err)
		_, err = server.Read(buf)
		require.NoError(t, err)
	}
	for range 2 {
		before := time.Now()
		_, err = client.Write([]byte("abcd"))
		require.NoError(t, err)
		after := time.Now()
		time.Sleep(500 * time.Millisecond) // a busy kernel takes some time to stamp it
		for _, want := range []string{"abc", "d"} {
			n, err := server.Read(buf)
			require.NoError(t, err)
			require.Equal(t, want, string(buf[:n]))
			require.WithinRange(t, came(), before.Round(0), after.Round(0).Add(400*time.Millisecond))
		}
	}
	require.NoError(t, server.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err = server.Read(buf)
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout())
	require.NoError(t, server.SetReadDeadline(time.Time{}))
	n, err := server.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, client.Close())
	_, err = server.Read(buf)
	require.ErrorIs(t, err, io.EOF)
}
