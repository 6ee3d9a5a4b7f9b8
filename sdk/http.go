package sdk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Connection is the way to one gateway. Those over HTTP are this package's own; package
// sdkgrpc has others, for Dialer.GRPC.
type Connection interface {
	Transport

	// Check says whether the gateway is there and takes the token. An error that no
	// answer has brought is one of Unreachable.
	Check(ctx context.Context) error

	// Live says whether the gateway answers at all.
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

// Unreachable is the error of a Connection whose gateway has not answered; dialing says
// that it could not be reached at all.
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
