package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire/secure"
)

// ErrOption is what errors of a Dialer's settings wrap.
var ErrOption = errors.New("sdk: invalid option")

// Dialer makes clients. The zero value is good for gateways on this machine.
type Dialer struct {
	// Token is sent with every request.
	Token string

	// TLS are the files of the certificate that this client shows, if any, and of the
	// CA that it believes; they are read again when they change. With them an address
	// without a scheme is one of https.
	TLS secure.Files

	// Plaintext lets the token travel to other hosts without TLS, on a network that
	// is trusted.
	Plaintext bool

	// HTTP is used in place of a client made here, for proxies or tracing.
	HTTP *http.Client
}

// connections is how many idle connections to a gateway are kept. Under overload a
// client has thousands of requests out, and opening a connection costs both sides more
// than a refusal does.
const connections = 4096

// Dial makes a client of the gateways at the addresses, each "HOST:PORT" or a URL,
// with the settings of the zero Dialer.
func Dial(ctx context.Context, addresses ...string) (*Client, error) {
	return Dialer{}.Dial(ctx, addresses...)
}

// Dial makes a client of the gateways at the addresses, each "HOST:PORT" or a URL,
// and checks that one of them is there. ctx bounds the check only.
//
// Of several gateways the client asks one after the other in turn, and goes on with
// the next when one is gone: a request that has no answer is asked again, for as
// long as its deadline allows. Engines are pure, so it may be computed twice, but it
// is answered once.
func (d Dialer) Dial(ctx context.Context, addresses ...string) (*Client, error) {
	switch {
	case strings.ContainsAny(d.Token, "\r\n"):
		return nil, fmt.Errorf("%w: the token holds a line break", ErrOption)
	case len(addresses) == 0:
		return nil, fmt.Errorf("%w: no address of a gateway; write HOST:PORT or http://HOST:PORT", ErrOption)
	}
	identity, err := secure.Load(d.TLS)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if d.HTTP == nil {
		d.HTTP = &http.Client{Transport: identity.Transport(newTransport())}
	}
	s := &several{}
	for _, address := range addresses {
		base, err := baseURL(address, identity != nil)
		if err != nil {
			return nil, err
		}
		if err := d.maySend(base); err != nil {
			return nil, err
		}
		s.peers = append(s.peers, newPeer(newOverHTTP(base, d.Token, d.HTTP)))
	}
	if err := s.check(ctx); err != nil {
		d.HTTP.CloseIdleConnections()
		return nil, typed(err)
	}
	var t Transport = s
	if len(s.peers) == 1 {
		t = s.peers[0].overHTTP
	}
	c := NewClient(t)
	c.close = func() error {
		d.HTTP.CloseIdleConnections()
		return nil
	}
	return c, nil
}

// newTransport keeps many connections, one for each request at a time, and
// never compresses: tensors hardly shrink.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0 // bounded by host
	t.MaxIdleConnsPerHost = connections
	t.IdleConnTimeout = time.Minute
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = false
	return t
}

// maySend refuses to show the token to whoever is on the way.
func (d Dialer) maySend(base string) error {
	u, err := url.Parse(base)
	if err == nil {
		err = secure.Credentials{Token: d.Token, Plain: d.Plaintext}.MaySend(u.Hostname(), u.Scheme == "https")
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOption, err)
	}
	return err
}

func baseURL(address string, overTLS bool) (string, error) {
	full := address
	switch {
	case strings.Contains(full, "://"):
	case overTLS:
		full = "https://" + full
	default:
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("sdk: %q is not the address of a gateway; write HOST:PORT or http://HOST:PORT", address)
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}
