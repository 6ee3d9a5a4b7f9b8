package secure

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// Transport makes a transport dial with the identity, as its files are then. A nil
// identity changes nothing.
func (i *Identity) Transport(t *http.Transport) *http.Transport {
	if i == nil {
		return t
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conn := tls.Client(raw, i.Client(host))
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, Explain(err, address)
		}
		return conn, nil
	}
	return t
}

// HTTP is a client over TLS with the identity; http.DefaultClient without one.
func (i *Identity) HTTP() *http.Client {
	if i == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: i.Transport(http.DefaultTransport.(*http.Transport).Clone())}
}
