package listen

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/secure"
)

func TestTCP(t *testing.T) {
	for address, says := range map[string]string{
		"0.0.0.0:0": "set a token", ":0": "set a token", "[::]:0": "set a token", "10.1.2.3:80": "127.0.0.1:80", "nowhere": "HOST:PORT",
	} {
		_, err := TCP(address, secure.Credentials{})
		require.ErrorContains(t, err, says, address)
	}
	l, err := TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	_, err = TCP(l.Addr().String(), secure.Credentials{})
	require.ErrorContains(t, err, "port "+port+" on 127.0.0.1 is in use")
	require.ErrorContains(t, Free("", "127.0.0.1:0", "nowhere", l.Addr().String()), "port "+port+" on 127.0.0.1 is in use")
	require.NoError(t, Free("", "127.0.0.1:0", "nowhere"))
	open, err := TCP("0.0.0.0:0", secure.Credentials{Token: "secret", Plain: true})
	require.NoError(t, err)
	open.Close()
}
