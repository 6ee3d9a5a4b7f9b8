package roles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/console"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/queue"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
	"github.com/harpagon/harpagon/wire/secure/securetest"
	"github.com/harpagon/harpagon/wire/stream"
)

// caller is who comes to a port, with what it has to show.
type caller struct {
	name  string
	shows secure.Credentials
	scope secure.Scope // of its named token; empty for none
}

// ports are those of all roles, secured in one way.
type ports struct {
	http, grpc, attach, dispatcher, executors, store string
}

// open starts every role that listens; those that need Temporal open their ports only.
func open(t *testing.T, c secure.Credentials) (p ports) {
	life, quit := context.WithCancel(t.Context())
	g := &Gateway{Gateway: gateway.New(gateway.Options{}), quit: quit, metrics: metrics.New(), seen: gateway.NewStatistics()}
	g.front = newFront(g.Gateway)
	g.front.enter(serving)
	any := "127.0.0.1:0"
	require.NoError(t, g.listen(life, GatewayOptions{HTTPAddr: any, GRPCAddr: any, AttachAddr: any, Credentials: c}, nil))
	s, err := StartStore(StoreOptions{Addr: any, Dir: t.TempDir(), Credentials: c})
	require.NoError(t, err)
	d := startDispatcher(t, DispatcherOptions{Credentials: c})
	t.Cleanup(func() {
		s.Stop()
		_ = g.Gateway.Close()
		require.NoError(t, g.Stop())
	})
	next, err := executorsPort(d.Addr)
	require.NoError(t, err)
	return ports{http: g.HTTP, grpc: g.GRPC, attach: g.Attach, dispatcher: d.Addr, executors: next, store: s.Addr}
}

// overHTTP reports whether a request is let in.
func overHTTP(t *testing.T, address, method, path string, as secure.Credentials) bool {
	ctx, over := context.WithTimeout(t.Context(), time.Minute)
	defer over()
	scheme := "http://"
	if as.Identity != nil {
		scheme = "https://"
	}
	r, err := http.NewRequestWithContext(ctx, method, scheme+address+path, strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+as.Token)
	transport := as.Identity.Transport(&http.Transport{})
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode != http.StatusUnauthorized
}

// overGRPC reports whether a call is let in.
func overGRPC(t *testing.T, address string, as secure.Credentials, call func(context.Context, pb.GRPCInferenceServiceClient) error) bool {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(securegrpc.Dial(as.Identity)))
	require.NoError(t, err)
	defer c.Close()
	ctx, over := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+as.Token), time.Minute)
	defer over()
	err = call(ctx, pb.NewGRPCInferenceServiceClient(c))
	return status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.Unavailable
}

// attaches reports whether an executor is let in: then its Hello is read, and a second
// Hello refused as out of protocol.
func attaches(t *testing.T, address string, as secure.Credentials) bool {
	as.Plain = true
	s, err := attach.Dialer{TCPOptions: attach.TCPOptions{Credentials: as}}.Dial(t.Context(), address)
	if err != nil {
		return false
	}
	defer s.Close()
	for range 2 {
		_ = s.Send(&attach.Message{Hello: &attach.Hello{Executor: "e", Pipeline: "p", Module: "m"}})
	}
	for err == nil {
		_, err = s.Recv()
	}
	return strings.Contains(err.Error(), `executor "e"`)
}

// joins reports whether a gateway is let in to a dispatcher. It sends everything at once
// without waiting for answers, an invalid claim too.
func joins(t *testing.T, p ports, as secure.Credentials) bool {
	ctx, over := context.WithTimeout(t.Context(), time.Minute)
	defer over()
	host, _, err := net.SplitHostPort(p.dispatcher)
	require.NoError(t, err)
	var c net.Conn
	if as.Identity == nil {
		c, err = stream.Dial(ctx, p.dispatcher, nil)
	} else {
		c, err = stream.Dial(ctx, p.dispatcher, as.Identity.Client(host))
	}
	if err != nil {
		return false
	}
	defer c.Close()
	all := []byte("hpgq\x05\r\n\r\n")
	for _, m := range []queue.Message{
		{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g"), Token: []byte(as.Token)},
		{Kind: queue.Claim, Text: []byte("stranger"), Epoch: 1 << 60},
		{Kind: queue.Install, Generation: 1, Text: []byte("nonsense")}, // after which there is an end
	} {
		all = queue.Append(all, &m)
	}
	_, _ = c.Write(all)
	heard, _ := io.ReadAll(c)
	if as.Token != "" {
		require.NotContains(t, string(heard), "shared", "a token is sent to a caller")
	}
	return strings.Contains(string(heard), "a deployment cannot be read")
}

// TestWhoComesInWhere is one rule for every port of every role: callers with a certificate
// of the CA, the shared token or one with the scope are let in where the port requires it,
// and nobody else.
func TestWhoComesInWhere(t *testing.T) {
	ours, theirs := securetest.New(t, "ours"), securetest.New(t, "theirs")
	mine := ours.Issue(t, t.TempDir(), time.Hour)
	foreign := theirs.Issue(t, t.TempDir(), time.Hour)
	identity := func(f secure.Files) *secure.Identity {
		i, err := secure.Load(f)
		require.NoError(t, err)
		return i
	}
	believing := identity(secure.Files{CA: mine.CA})
	scopes := []secure.Scope{"infer:p", "infer:other", secure.Infer, secure.Read, secure.Apply, secure.Join}
	callers := []caller{
		{name: "nobody", shows: secure.Credentials{Identity: believing}},
		{name: "wrong token", shows: secure.Credentials{Identity: believing, Token: "wrong"}},
		{name: "shared", shows: secure.Credentials{Identity: believing, Token: "shared"}},
		{name: "foreign", shows: secure.Credentials{Identity: identity(secure.Files{Cert: foreign.Cert, Key: foreign.Key, CA: mine.CA})}},
		{name: "certificate", shows: secure.Credentials{Identity: identity(mine)}},
	}
	text := ""
	for _, s := range scopes {
		name := string(s)
		callers = append(callers, caller{name: name, shows: secure.Credentials{Identity: believing, Token: name}, scope: s})
		text += fmt.Sprintf("%s %s sha256:%x\n", name, s, sha256.Sum256([]byte(name)))
	}
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)

	server := identity(secure.Files{Cert: mine.Cert, Key: mine.Key})
	digest := "/sha256/" + strings.Repeat("0", 64)
	infer := &pb.ModelInferRequest{ModelName: "p"}
	doors := []struct {
		name   string
		scopes string // of tokens that are good for it
		admits func(*testing.T, ports, secure.Credentials) bool
	}{
		{"gateway, HTTP, infer", "infer:p infer", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.http, "POST", "/v2/models/p/infer", as)
		}},
		{"gateway, HTTP, metadata", "infer:p infer", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.http, "GET", "/v2/models/p", as)
		}},
		{"gateway, HTTP, index", "read", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.http, "POST", "/v2/repository/index", as)
		}},
		{"gateway, HTTP, metrics", "read", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.http, "GET", "/metrics", as)
		}},
		{"gateway, HTTP, console", "read", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.http, "GET", console.Root+"style.css", as)
		}},
		{"gateway, gRPC, infer", "infer:p infer", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overGRPC(t, p.grpc, as, func(ctx context.Context, c pb.GRPCInferenceServiceClient) error {
				_, err := c.ModelInfer(ctx, infer)
				return err
			})
		}},
		{"gateway, gRPC, stream", "infer:p infer", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overGRPC(t, p.grpc, as, func(ctx context.Context, c pb.GRPCInferenceServiceClient) error {
				s, err := c.ModelStreamInfer(ctx)
				if err != nil {
					return err
				}
				_ = s.Send(infer) // Recv reports why it cannot be
				m, err := s.Recv()
				if strings.Contains(m.GetErrorMessage(), "requires a ") {
					err = status.Error(codes.Unauthenticated, m.GetErrorMessage())
				}
				return err
			})
		}},
		{"gateway, gRPC, metadata", "infer:p infer", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overGRPC(t, p.grpc, as, func(ctx context.Context, c pb.GRPCInferenceServiceClient) error {
				_, err := c.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "p"})
				return err
			})
		}},
		{"gateway, gRPC, index", "read", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overGRPC(t, p.grpc, as, func(ctx context.Context, c pb.GRPCInferenceServiceClient) error {
				_, err := c.RepositoryIndex(ctx, &pb.RepositoryIndexRequest{})
				return err
			})
		}},
		{"gateway, executors", "join", func(t *testing.T, p ports, as secure.Credentials) bool { return attaches(t, p.attach, as) }},
		{"dispatcher, executors", "join", func(t *testing.T, p ports, as secure.Credentials) bool { return attaches(t, p.executors, as) }},
		{"dispatcher, gateways", "join", joins},
		{"control, store, take", "join", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.store, "GET", digest, as)
		}},
		{"control, store, bring", "apply", func(t *testing.T, p ports, as secure.Credentials) bool {
			return overHTTP(t, p.store, "PUT", digest, as)
		}},
	}
	for secured, c := range map[string]secure.Credentials{
		"--tls-ca":        {Identity: identity(mine)},
		"--tokens":        {Identity: server, Tokens: tokens},
		"HARPAGON_TOKEN":  {Identity: server, Token: "shared"},
		"all":             {Identity: identity(mine), Tokens: tokens, Token: "shared"},
		"without TLS":     {Tokens: tokens, Token: "shared"},
		"nothing, no TLS": {},
	} {
		t.Run(secured, func(t *testing.T) {
			p := open(t, c)
			for _, door := range doors {
				for _, who := range callers {
					good := who.name == "certificate" && c.Identity.AsksCallers() || who.name == "shared" && c.Token != "" ||
						who.scope != "" && c.Tokens != nil && strings.Contains(" "+door.scopes+" ", " "+string(who.scope)+" ")
					as := who.shows
					if c.Identity == nil {
						as.Identity = nil
						good = good || c.Guard().Open()
					}
					require.Equal(t, good, door.admits(t, p, as), "%s lets in %s", door.name, who.name)
				}
			}
		})
	}
}
