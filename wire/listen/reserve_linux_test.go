package listen

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/secure"
)

// only has the kernel choose among one port.
func only(port int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		const localPortRange = 51 // IP_LOCAL_PORT_RANGE, since Linux 6.3
		_ = c.Control(func(s uintptr) {
			err = syscall.SetsockoptInt(int(s), syscall.IPPROTO_IP, localPortRange, port<<16|port)
		})
		return err
	}
}

func TestAReservedPortIsNotGivenAway(t *testing.T) {
	at, release, err := Reserve("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	defer release()
	anyPort := net.ListenConfig{Control: only(at.Port)}
	listen := func() error {
		l, err := anyPort.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err == nil {
			_ = l.Close()
		}
		return err
	}
	err = listen()
	if errors.Is(err, syscall.ENOPROTOOPT) {
		t.Skip("this kernel cannot be restricted to one port: ", err)
	}
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	_, err = (&net.Dialer{Control: only(at.Port)}).Dial("tcp4", other.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL, "nor for a call")

	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err, "it can be opened by its number")
	release()
	c, err := net.Dial("tcp", at.String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

func TestReserveKeepsTheRules(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, _, err = Reserve(l.Addr().String(), secure.Credentials{})
	assert.ErrorContains(t, err, "in use")
	for _, beyond := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		_, _, err = Reserve(beyond, secure.Credentials{})
		assert.Error(t, err, beyond)
	}
	at, release, err := Reserve("[::1]:0", secure.Credentials{})
	if err == nil {
		assert.NotZero(t, at.Port)
		release()
	}
}
