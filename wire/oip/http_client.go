package oip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/harpagon/harpagon/wire"
)

// DefaultMaxAnswer is the longest answer that is read, in bytes.
const DefaultMaxAnswer = 256 << 20

// connections is how many idle connections are kept.
const connections = 64

// ClientOptions describe a server.
type ClientOptions struct {
	URL       string // "http://HOST:PORT", without a path
	Socket    string // path of a Unix socket, instead of the host of URL
	Token     string // sent as "Authorization: Bearer TOKEN"; empty sends none
	MaxAnswer int64  // bytes; 0 means DefaultMaxAnswer
	Binary    bool   // the server is known to take binary tensors, so it is not asked

	// HTTP is used as it is; nil makes one.
	HTTP *http.Client

	// Broken explains a failure below the protocol; nil makes a *wire.Error.
	Broken func(ctx context.Context, err error) error
}

// Client asks one server. It may be used from many goroutines at once; Close it
// in the end.
type Client struct {
	options ClientOptions
	http    *http.Client
	asides  *http.Client // for what is no inference: a server may keep something for each connection that infers

	binary atomic.Bool // the server has the extension for binary tensors
	asked  sync.Mutex
	known  bool     // what binary says has been asked
	named  []string // extensions of the server, once asked
}

// NewClient makes a client. Nothing is sent yet.
func NewClient(o ClientOptions) *Client {
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	c := &Client{options: o, http: o.HTTP, asides: o.HTTP, known: o.Binary}
	c.binary.Store(o.Binary)
	if c.http == nil {
		c.http, c.asides = newHTTP(o), newHTTP(o)
	}
	return c
}

func newHTTP(o ClientOptions) *http.Client {
	t := &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		DisableCompression: true, // tensors hardly shrink
	}
	if o.Socket != "" {
		t.IdleConnTimeout = 0 // it is one program's, which may keep much for a connection
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
		}
	} else {
		t.Proxy = http.ProxyFromEnvironment
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: t, CheckRedirect: refuse}
}

// Close lets go of idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	c.asides.CloseIdleConnections()
	return nil
}

// Live returns nil when the server is alive.
func (c *Client) Live(ctx context.Context) error {
	_, _, err := c.do(ctx, http.MethodGet, "/v2/health/live", nil, -1)
	return err
}

// Ready reports whether the model can be asked. The error tells that the server
// cannot, or that it has no such model.
func (c *Client) Ready(ctx context.Context, model, version string) (bool, error) {
	_, _, err := c.do(ctx, http.MethodGet, modelPath(model, version)+"/ready", nil, -1)
	var e *answered
	if errors.As(err, &e) && (e.status == http.StatusServiceUnavailable || e.status == http.StatusBadRequest) {
		return false, nil
	}
	return err == nil, err
}

// About returns nil when the server describes itself to who has the token.
func (c *Client) About(ctx context.Context) error {
	_, _, err := c.do(ctx, http.MethodGet, "/v2", nil, -1)
	return err
}

// Models lists the models of the server, which not every server does.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	body, _, err := c.do(ctx, http.MethodGet, "/v2/models", nil, -1)
	if err != nil {
		return nil, err
	}
	return decodeList(body)
}

// Metadata describes the model.
func (c *Client) Metadata(ctx context.Context, model, version string) (*wire.Metadata, error) {
	body, _, err := c.do(ctx, http.MethodGet, modelPath(model, version), nil, -1)
	if err != nil {
		return nil, err
	}
	m, err := DecodeMetadata(body)
	if err != nil {
		return nil, unreadableAnswer(err)
	}
	return m, nil
}

// Infer asks for one answer. The deadline of ctx is told to the server.
func (c *Client) Infer(ctx context.Context, q *wire.InferRequest, version string) (*wire.InferResponse, error) {
	return c.infer(ctx, q, version, new(Places))
}

func (c *Client) infer(ctx context.Context, q *wire.InferRequest, version string, p *Places) (*wire.InferResponse, error) {
	if err := c.extensions(ctx); err != nil {
		return nil, err
	}
	var timeout time.Duration
	if at, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(at), time.Microsecond)
	}
	body, header, err := encodeRequest(q, timeout, c.binary.Load(), p)
	if err != nil {
		return nil, err
	}
	answer, header, err := c.do(ctx, http.MethodPost, modelPath(q.Pipeline, version)+"/infer", body, header)
	if err != nil {
		return nil, err
	}
	r, err := decodeResponse(answer, header, q, p)
	if err != nil {
		return nil, unreadableAnswer(err)
	}
	return r, nil
}

// extensions asks once what the server knows.
func (c *Client) extensions(ctx context.Context) error {
	c.asked.Lock()
	defer c.asked.Unlock()
	if c.known {
		return nil
	}
	body, _, err := c.do(ctx, http.MethodGet, "/v2", nil, -1)
	var refused *answered
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	var j struct {
		Extensions []string `json:"extensions"`
	}
	if err == nil && json.Unmarshal(body, &j) == nil { // or it tells nothing that can be read
		c.named = j.Extensions
		c.binary.Store(slices.Contains(j.Extensions, ExtensionBinary))
	}
	c.known = true
	return nil
}

func modelPath(model, version string) string {
	path := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

// answered is the error that a server has answered with.
type answered struct {
	status int
	typed  *wire.Error
}

func (a *answered) Error() string { return a.typed.Error() }
func (a *answered) Unwrap() error { return a.typed }

// do sends a request to the server and gives the body of its answer, and the length
// of the body's JSON part where it has binary data, or else -1.
func (c *Client) do(ctx context.Context, method, path string, body []byte, header int) ([]byte, int, error) {
	client := c.http
	if method == http.MethodGet {
		client = c.asides
	}
	return c.doBy(ctx, client, method, path, body, header)
}

func (c *Client) doBy(ctx context.Context, client *http.Client, method, path string, body []byte, header int) ([]byte, int, error) {
	answer, err := Do(ctx, client, HTTPRequest{
		Method: method, URL: c.options.URL + path, Token: c.options.Token, Body: body, Header: header, MaxAnswer: c.options.MaxAnswer,
	})
	switch {
	case errors.Is(err, ErrTooLong):
		return nil, 0, unreadableAnswer(fmt.Errorf("%w: more than %d bytes", err, c.options.MaxAnswer))
	case err != nil && c.options.Broken != nil:
		return nil, 0, c.options.Broken(ctx, err)
	case err != nil:
		return nil, 0, c.broken(ctx, err)
	case answer.Status != http.StatusOK:
		return nil, 0, &answered{answer.Status, DecodeError(answer.Status, answer.Body)}
	}
	if header, err = answer.JSON(); err != nil {
		return nil, 0, unreadableAnswer(err)
	}
	return answer.Body, header, nil
}

// broken explains a failure below the protocol.
func (c *Client) broken(ctx context.Context, err error) error {
	var op *net.OpError
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return wire.Errorf(wire.CodeDeadline, "", "the server at %s has not answered in time", c.where())
	case ctx.Err() != nil:
		return wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
	case errors.As(err, &op) && op.Op == "dial":
		return wire.Errorf(wire.CodeUnavailable, "", "no server answers at %s: %v", c.where(), op.Err)
	}
	return WrapLost(wire.Errorf(wire.CodeUnavailable, "", "the server at %s ended the connection: %v", c.where(), err))
}

func (c *Client) where() string {
	if c.options.Socket != "" {
		return c.options.Socket
	}
	return c.options.URL
}

// unreadableAnswer is the error of an answer that is none of the protocol.
func unreadableAnswer(err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		return wire.Errorf(wire.CodeInternal, "", "the server's answer cannot be read: %s", e.Reason)
	}
	return wire.Errorf(wire.CodeInternal, "", "the server's answer cannot be read: %v", err)
}

// ErrTooLong is what Do fails with when an answer is longer than allowed.
var ErrTooLong = errors.New("the answer is too long")

// trusted is how many bytes the length of an answer alone is given memory for.
const trusted = 64 << 20

// HTTPRequest is one HTTP request of the protocol.
type HTTPRequest struct {
	Method    string
	URL       string
	Token     string // sent as "Authorization: Bearer TOKEN"; empty sends none
	Body      []byte // as package oip encodes it; nil where there is none
	Header    int    // length of the body's JSON part where binary data follow, else -1
	MaxAnswer int64  // bytes
}

// HTTPAnswer is what a server has answered, whatever its status. What refuses a request does not
// hold the request's token.
type HTTPAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON is the length of the body's JSON part where binary data follow, else -1.
func (a *HTTPAnswer) JSON() (int, error) {
	return ParseHeaderLength(a.Header.Get(HeaderLength))
}

// Do sends a request, with the W3C trace context of ctx, and reads the answer. The answer is nil where none came; with
// an error it has no body.
func Do(ctx context.Context, client *http.Client, q HTTPRequest) (*HTTPAnswer, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	switch {
	case q.Body == nil:
	case q.Header >= 0:
		r.Header.Set("Content-Type", ContentBinary)
		r.Header.Set(HeaderLength, strconv.Itoa(q.Header))
	default:
		r.Header.Set("Content-Type", ContentJSON)
	}
	if q.Token != "" {
		r.Header.Set("Authorization", "Bearer "+q.Token)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := readAnswer(resp, q.MaxAnswer)
	if resp.StatusCode >= 300 {
		body = []byte(HideToken(string(body), q.Token))
	}
	return &HTTPAnswer{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// readAnswer reads the body; ErrTooLong when it is longer than most bytes.
func readAnswer(resp *http.Response, most int64) ([]byte, error) {
	n := resp.ContentLength
	switch {
	case n > most:
		return nil, ErrTooLong
	case n >= 0 && n <= trusted:
		body := make([]byte, n)
		if _, err := io.ReadFull(resp.Body, body); err != nil {
			return nil, err
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = ErrTooLong
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}
