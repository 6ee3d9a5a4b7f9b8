package sdk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
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

	// GRPC makes the connections of addresses "grpc://HOST:PORT" and "grpcs://HOST:PORT";
	// it is sdkgrpc.Connect. Programs that leave it out do not compile gRPC.
	GRPC func(Endpoint) (Connection, error)
}

// Endpoint is where a connection goes to and what it shows there.
type Endpoint struct {
	Host  string           // HOST:PORT
	TLS   bool             // over TLS, with the identity if there is one
	Token string           // sent with every request; empty has none
	Proof *secure.Identity // nil has none
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

// Dial makes a client of the gateways at the addresses, each "HOST:PORT" or a URL of
// http, https or, where GRPC is set, grpc or grpcs, and checks that one of them is there. ctx bounds the check only.
//
// Requests go to several gateways in turn; when one is gone, its unanswered requests are
// sent again to the next, within their deadlines. Engines are pure, so a request may be
// computed twice, but it is answered once.
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
		connection, err := d.connect(address, identity)
		if err != nil {
			_ = s.close()
			return nil, err
		}
		s.peers = append(s.peers, newPeer(connection))
	}
	if err := s.check(ctx); err != nil {
		_ = s.close()
		return nil, typed(err)
	}
	var t Transport = s
	if len(s.peers) == 1 {
		t = s.peers[0].Connection
	}
	c := NewClient(t)
	c.close = s.close
	return c, nil
}

// connect makes the connection of one address. Nothing is sent yet.
func (d Dialer) connect(address string, identity *secure.Identity) (Connection, error) {
	base, err := baseURL(address, identity != nil)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	overTLS := u.Scheme == "https" || u.Scheme == "grpcs"
	if err := (secure.Credentials{Token: d.Token, Plain: d.Plaintext}).MaySend(u.Hostname(), overTLS); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	switch {
	case u.Scheme != "grpc" && u.Scheme != "grpcs":
		return newOverHTTP(base, d.Token, d.HTTP), nil
	case d.GRPC == nil:
		return nil, fmt.Errorf("%w: %s needs gRPC; set Dialer.GRPC to sdkgrpc.Connect, or use sdkgrpc.Dial", ErrOption, address)
	}
	return d.GRPC(Endpoint{Host: u.Host, TLS: overTLS, Token: d.Token, Proof: identity})
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
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "grpc", "grpcs"}, u.Scheme) {
		return "", fmt.Errorf("sdk: %q is not the address of a gateway; write HOST:PORT or http://HOST:PORT", address)
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}

// Connection is the way to one gateway. Those over HTTP are this package's own; package
// sdkgrpc has others, for Dialer.GRPC.
type Connection interface {
	Transport

	// Check reports whether the gateway is there and takes the token. An error that no
	// answer has brought is one of Unreachable.
	Check(ctx context.Context) error

	// Live reports whether the gateway answers at all.
	Live(ctx context.Context) error

	Close() error
	String() string // address
}

// overHTTP is the transport that Dial makes.
type overHTTP struct {
	base   string
	http   *http.Client
	client *oip.Client
}

func newOverHTTP(base, token string, client *http.Client) *overHTTP {
	t := &overHTTP{base: base, http: client}
	t.client = oip.NewClient(oip.ClientOptions{URL: base, Token: token, MaxAnswer: math.MaxInt64 - 1, Binary: true, HTTP: client, Broken: t.unreachable})
	return t
}

// String is the gateway's URL.
func (t *overHTTP) String() string { return t.base }

// Check implements Connection.
func (t *overHTTP) Check(ctx context.Context) error { return t.client.About(ctx) }

// Live implements Connection.
func (t *overHTTP) Live(ctx context.Context) error { return t.client.Live(ctx) }

// Close implements Connection.
func (t *overHTTP) Close() error {
	t.http.CloseIdleConnections()
	return nil
}

// Pipelines implements Transport.
func (t *overHTTP) Pipelines(ctx context.Context) ([]string, error) { return t.client.Models(ctx) }

// Metadata implements Transport.
func (t *overHTTP) Metadata(ctx context.Context, pipeline string) (*wire.Metadata, error) {
	return t.client.Metadata(ctx, pipeline, "")
}

// Infer implements Transport.
func (t *overHTTP) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= 0 {
		return nil, context.DeadlineExceeded
	}
	return t.client.Infer(ctx, q, "")
}

// Unreachable is the error of a Connection whose gateway has not answered; dialing means
// that no connection could be made.
func Unreachable(address string, dialing bool, cause error) error {
	return &unreachableError{address, dialing, cause}
}

// unreachableError is a failure below the protocol: there is no answer.
type unreachableError struct {
	base    string
	dialing bool // no connection could be made
	cause   error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("no gateway answers at %s; start one with harpagon up, or check the address: %v", e.base, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// unreachable explains a failure below the protocol, unless the caller's own
// context has ended.
func (t *overHTTP) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	return Unreachable(t.base, errors.As(err, &op) && op.Op == "dial", err)
}
