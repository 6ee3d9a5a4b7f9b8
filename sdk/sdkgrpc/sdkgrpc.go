// Package sdkgrpc connects clients of package sdk by gRPC. It stands apart so that
// programs that use HTTP do not compile gRPC.
//
//	client, err := sdkgrpc.Dial(ctx, "grpc://gateway-1:8081", "grpc://gateway-2:8081")
//
// Everything else is as over HTTP: errors, deadlines, several gateways. All requests to a
// gateway share one connection, and small ones that are under way together share streams,
// which costs half as much as calls of their own.
package sdkgrpc

import (
	"context"
	"crypto/tls"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
)

// Dial makes a client of the gateways at the addresses, each "HOST:PORT" of a gateway's
// gRPC port or a URL of grpc or grpcs, with the settings of the zero sdk.Dialer. For
// others set Connect as GRPC of a Dialer.
func Dial(ctx context.Context, addresses ...string) (*sdk.Client, error) {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		if all[i] = a; !strings.Contains(a, "://") {
			all[i] = "grpc://" + a
		}
	}
	return sdk.Dialer{GRPC: Connect}.Dial(ctx, all...)
}

// Connect makes the connection of an address; it is for sdk.Dialer. Nothing is sent yet.
func Connect(to sdk.Endpoint) (sdk.Connection, error) {
	c := &connection{address: "grpc://" + to.Host}
	o := oipgrpc.ClientOptions{
		Address: to.Host, Token: to.Token, MaxAnswer: math.MaxInt32, Streams: true,
		Broken: func(sent bool, err error) error { return sdk.Unreachable(c.address, !sent, err) },
	}
	if to.TLS {
		c.address = "grpcs://" + to.Host
		if o.Secure = securegrpc.Dial(to.Proof); to.Proof == nil {
			o.Secure = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
		}
	}
	var err error
	c.Client, err = oipgrpc.NewClient(o)
	return c, err
}

// connection is an sdk.Connection.
type connection struct {
	*oipgrpc.Client
	address string
}

// String is the gateway's address.
func (c *connection) String() string { return c.address }

// Check implements sdk.Connection.
func (c *connection) Check(ctx context.Context) error { return c.About(ctx) }

// Pipelines implements sdk.Transport.
func (c *connection) Pipelines(ctx context.Context) ([]string, error) { return c.Models(ctx) }

// Metadata implements sdk.Transport.
func (c *connection) Metadata(ctx context.Context, pipeline string) (*wire.Metadata, error) {
	return c.Client.Metadata(ctx, pipeline, "")
}

// Infer implements sdk.Transport.
func (c *connection) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= 0 {
		return nil, context.DeadlineExceeded
	}
	return c.Client.Infer(ctx, q, "")
}
