package oipgrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// DefaultMaxAnswer is the longest answer that is read, in bytes.
const DefaultMaxAnswer = 256 << 20

// How soon a server that was gone is tried again: it may be back in a moment.
var reconnect = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// connectWithin is how long a connection may take to be made.
const connectWithin = 5 * time.Second

// window is what may be under way on a connection before it has been read.
const window = 4 << 20

// ClientOptions describe a server.
type ClientOptions struct {
	Address   string                           // HOST:PORT
	Socket    string                           // path of a Unix socket, instead of Address
	TLS       *tls.Config                      // nil means none
	Secure    credentials.TransportCredentials // in place of TLS, where its files may change
	Token     string                           // sent as "authorization: Bearer TOKEN"; empty sends none
	MaxAnswer int                              // bytes; 0 means DefaultMaxAnswer
	Streams   bool                             // requests that are under way together may share streams, where the server knows of them

	// Broken explains a failure below the protocol, before or after the request was sent;
	// nil makes a *wire.Error.
	Broken func(sent bool, err error) error
}

// Client asks one server, whoever wrote it. It may be used from many goroutines
// at once; Close it in the end. Errors are those of package wire/oip.
type Client struct {
	options ClientOptions
	conn    *grpc.ClientConn
	streams streams
}

// NewClient makes a client. Nothing is sent yet.
func NewClient(o ClientOptions) (*Client, error) {
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	secure := insecure.NewCredentials()
	switch {
	case o.Secure != nil:
		secure = o.Secure
	case o.TLS != nil:
		secure = credentials.NewTLS(o.TLS)
	}
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxAnswer), grpc.MaxCallSendMsgSize(1<<31-1),
			grpc.ForceCodecV2(codec{encoding.GetCodecV2(encodingproto.Name)})),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectWithin}),
	}
	if o.Socket != "" {
		all = append(all, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
		}), grpc.WithAuthority("localhost"))
		o.Address = "localhost"
	}
	conn, err := grpc.NewClient("passthrough:///"+o.Address, all...)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "", "%q is not the address of a server: %v", o.Address, err)
	}
	return &Client{options: o, conn: conn}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Live returns nil when the server is alive.
func (c *Client) Live(ctx context.Context) error {
	var r pb.ServerLiveResponse
	err := c.call(ctx, pb.GRPCInferenceService_ServerLive_FullMethodName, &pb.ServerLiveRequest{}, &r)
	if err == nil && !r.GetLive() {
		return wire.Errorf(wire.CodeUnavailable, "", "the server at %s reports that it is not alive", c.where())
	}
	return err
}

// Ready reports whether the model can be asked. The error tells that the server
// cannot, or that it has no such model.
func (c *Client) Ready(ctx context.Context, model, version string) (bool, error) {
	var r pb.ModelReadyResponse
	err := c.call(ctx, pb.GRPCInferenceService_ModelReady_FullMethodName, &pb.ModelReadyRequest{Name: model, Version: version}, &r)
	return r.GetReady(), err
}

// Metadata describes the model.
func (c *Client) Metadata(ctx context.Context, model, version string) (*wire.Metadata, error) {
	var more metadata.MD
	var m pb.ModelMetadataResponse
	err := c.call(ctx, pb.GRPCInferenceService_ModelMetadata_FullMethodName, &pb.ModelMetadataRequest{Name: model, Version: version}, &m, grpc.Header(&more))
	if err != nil {
		return nil, err
	}
	out := decodeMetadata(&m)
	decodeMore(out, more)
	return out, nil
}

// About returns nil when the server describes itself to who has the token.
func (c *Client) About(ctx context.Context) error {
	return c.call(ctx, pb.GRPCInferenceService_ServerMetadata_FullMethodName, &pb.ServerMetadataRequest{}, new(pb.ServerMetadataResponse))
}

// Models lists the models of the server, in order of name, which not every server does.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	var index pb.RepositoryIndexResponse
	if err := c.call(ctx, pb.GRPCInferenceService_RepositoryIndex_FullMethodName, &pb.RepositoryIndexRequest{}, &index); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range index.GetModels() {
		names = append(names, m.GetName())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Infer asks for one answer. The deadline of ctx is told to the server.
func (c *Client) Infer(ctx context.Context, q *wire.InferRequest, version string) (*wire.InferResponse, error) {
	asked := question{request: q, version: version}
	if at, ok := ctx.Deadline(); ok {
		asked.timeout = max(time.Until(at), time.Microsecond)
	}
	defer c.streams.under.Add(-1)
	if c.streams.under.Add(1) > fewest {
		if r, sent, err := c.byStream(ctx, &asked); sent {
			return r, err
		}
	}
	var r reply
	if err := c.call(ctx, pb.GRPCInferenceService_ModelInfer_FullMethodName, &asked, &r); err != nil {
		return nil, err
	}
	if r.err != nil {
		return nil, unreadable(r.err)
	}
	return r.answer, nil
}

func unreadable(err error) error {
	return wire.Errorf(wire.CodeInternal, "", "the server's answer cannot be read: %s", reason(err))
}

// call asks the server once, and explains a failure.
func (c *Client) call(ctx context.Context, method string, q, r any, more ...grpc.CallOption) error {
	s := sending{message: q}
	err := c.conn.Invoke(c.outgoing(ctx), method, &s, r, append(more, grpc.StaticMethod(), grpc.Trailer(&s.trailer))...)
	if err != nil {
		return c.explain(ctx, &s, err)
	}
	return nil
}

func (c *Client) where() string {
	if c.options.Socket != "" {
		return c.options.Socket
	}
	return c.options.Address
}

// explain makes a status typed.
func (c *Client) explain(ctx context.Context, s *sending, err error) error {
	e := DecodeError(err)
	e.Reason = oip.HideToken(e.Reason, c.options.Token)
	answered := s.told || len(s.trailer) > 0 // headers alone are no answer: the server may die behind them
	switch code := status.Code(err); {
	case answered && code == codes.Internal && e.Reason == "":
		e.Reason = "the server failed without saying why"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return wire.Errorf(wire.CodeDeadline, "", "the server at %s has not answered in time", c.where())
	case ctx.Err() != nil:
		return wire.Errorf(wire.CodeCanceled, "", "the caller has gone")
	case answered:
	case code == codes.Unavailable && c.options.Broken != nil:
		return c.options.Broken(s.sent, errors.New(e.Reason))
	case code == codes.Unavailable && s.sent:
		return oip.WrapLost(wire.Errorf(wire.CodeUnavailable, "", "the server at %s ended the connection: %s", c.where(), e.Reason))
	case code == codes.Unavailable:
		e.Reason = "no server answers at " + c.where() + ": " + e.Reason
	}
	return e
}

// sending is a message on its way to a server.
type sending struct {
	message any
	sent    bool        // or on its way
	told    bool        // by the server, why it has failed
	trailer metadata.MD // what the server has answered with behind all, if it has
}

func (c *Client) outgoing(ctx context.Context) context.Context {
	if c.options.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.options.Token)
	}
	return withTrace(ctx)
}

// withTrace sends the W3C trace context of ctx along.
func withTrace(ctx context.Context) context.Context {
	sent := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, sent)
	for k, v := range sent {
		ctx = metadata.AppendToOutgoingContext(ctx, k, v)
	}
	return ctx
}

// traceKey is the name of the header that a trace comes with.
const traceKey = "traceparent"

// IsTraced reports whether a trace comes with the headers of a call.
func IsTraced(came metadata.MD) bool { return len(came[traceKey]) > 0 }

// Traced is the context of a call, with the W3C trace context that came with it.
func Traced(ctx context.Context) context.Context {
	parents := metadata.ValueFromIncomingContext(ctx, traceKey)
	if len(parents) == 0 {
		return ctx
	}
	came := propagation.MapCarrier{traceKey: parents[0]}
	if states := metadata.ValueFromIncomingContext(ctx, "tracestate"); len(states) > 0 {
		came["tracestate"] = states[0]
	}
	return propagation.TraceContext{}.Extract(ctx, came)
}
