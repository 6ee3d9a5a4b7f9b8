package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Option configures Dial. A wrong one makes Dial fail with an error that wraps
// ErrOption.
type Option func(*dialer) error

// ErrOption is what errors of options wrap.
var ErrOption = errors.New("sdk: invalid option")

type dialer struct {
	token  string
	client *http.Client
}

// WithToken sends the gateway's token with every request.
func WithToken(token string) Option {
	return func(d *dialer) error {
		if strings.ContainsAny(token, "\r\n") {
			return fmt.Errorf("%w: the token of WithToken holds a line break", ErrOption)
		}
		d.token = token
		return nil
	}
}

// WithHTTPClient uses an HTTP client of the program's own, for TLS, proxies or
// tracing.
func WithHTTPClient(c *http.Client) Option {
	return func(d *dialer) error {
		if c == nil {
			return fmt.Errorf("%w: WithHTTPClient got nil", ErrOption)
		}
		d.client = c
		return nil
	}
}

// connections is how many idle connections to the gateway are kept.
const connections = 256

// Dial makes a client of the gateway at the address, "HOST:PORT" or a URL, and
// checks that it is there. ctx bounds the check only.
func Dial(ctx context.Context, address string, options ...Option) (*Client, error) {
	var d dialer
	for _, o := range options {
		if err := o(&d); err != nil {
			return nil, err
		}
	}
	base, err := baseURL(address)
	if err != nil {
		return nil, err
	}
	if d.client == nil {
		d.client = &http.Client{Transport: newTransport()}
	}
	t := newOverHTTP(base, d.token, d.client)
	if err := t.check(ctx); err != nil {
		d.client.CloseIdleConnections()
		return nil, typed(err)
	}
	c := NewClient(t)
	c.close = func() error {
		d.client.CloseIdleConnections()
		return nil
	}
	return c, nil
}

// newTransport keeps many connections, one for each request at a time, and
// never compresses: tensors hardly shrink.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = connections
	t.MaxIdleConnsPerHost = connections
	t.IdleConnTimeout = time.Minute
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = false
	return t
}

func baseURL(address string) (string, error) {
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("sdk: %q is not the address of a gateway; write HOST:PORT or http://HOST:PORT", address)
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}
