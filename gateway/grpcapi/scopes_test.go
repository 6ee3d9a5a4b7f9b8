package grpcapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/attach/attachtcp"
	"github.com/harpagon/harpagon/wire/listen"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
)

// Each port lets in whom the scopes of a named token let in, and nobody else.
func TestScopesAtEveryPort(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "tokens"), ""
	for name, scopes := range map[string]string{"one": "infer:p", "other": "infer:q", "any": "infer", "looks": "read", "brings": "apply", "joins": "join"} {
		text += fmt.Sprintf("%s %s sha256:%x\n", name, scopes, sha256.Sum256([]byte(name)))
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	credentials := secure.Credentials{Token: "shared", Tokens: tokens}

	g := instant(t, gateway.Options{})
	web := httptest.NewServer(httpapi.New(g, httpapi.Options{
		Callers: credentials.Guard(), Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}))
	defer web.Close()
	store := httptest.NewServer(content.Handler(content.Folder(t.TempDir()), credentials.Guard()))
	defer store.Close()
	requests := dialed(t, func(ctx context.Context) (string, func() error) {
		l, err := listen.TCP("127.0.0.1:0", credentials)
		require.NoError(t, err)
		return l.Addr().String(), func() error { return Serve(ctx, l, New(g, Options{Callers: credentials.Guard()})) }
	})
	executors, err := listen.TCP("127.0.0.1:0", credentials)
	require.NoError(t, err)
	go func() {
		over := func(s attach.Stream) error { return s.Close() }
		_ = attachtcp.Serve(t.Context(), executors, attachtcp.Options{Credentials: credentials}, over)
	}()
	model := pb.NewGRPCInferenceServiceClient(requests)

	overHTTP := func(method, url string) func(string) bool {
		return func(token string) bool {
			q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
			require.NoError(t, err)
			q.Header.Set("Authorization", "Bearer "+token)
			r, err := http.DefaultClient.Do(q)
			require.NoError(t, err)
			_ = r.Body.Close()
			return r.StatusCode != http.StatusUnauthorized
		}
	}
	overGRPC := func(call func(context.Context) error) func(string) bool {
		return func(token string) bool {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
			return status.Code(call(ctx)) != codes.Unauthenticated
		}
	}
	digest := "/sha256/" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		admits func(token string) bool
		good   string
	}{
		"HTTP infer":    {overHTTP("POST", web.URL+"/v2/models/p/infer"), "one any shared"},
		"HTTP metadata": {overHTTP("GET", web.URL+"/v2/models/p"), "one any shared"},
		"HTTP metrics":  {overHTTP("GET", web.URL+"/metrics"), "looks shared"},
		"gRPC infer": {overGRPC(func(ctx context.Context) error {
			_, err := model.ModelInfer(ctx, &pb.ModelInferRequest{ModelName: "p"})
			return err
		}), "one any shared"},
		"gRPC stream": {overGRPC(func(ctx context.Context) error {
			s, err := model.ModelStreamInfer(ctx)
			require.NoError(t, err)
			require.NoError(t, s.Send(&pb.ModelInferRequest{ModelName: "p"}))
			m, err := s.Recv()
			require.NoError(t, err)
			if strings.Contains(m.GetErrorMessage(), "token") {
				return status.Error(codes.Unauthenticated, m.GetErrorMessage())
			}
			return nil
		}), "one any shared"},
		"gRPC metadata": {overGRPC(func(ctx context.Context) error {
			_, err := model.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "p"})
			return err
		}), "one any shared"},
		"executors": {func(token string) bool {
			over := attachtcp.Dialer{Options: attachtcp.Options{Credentials: secure.Credentials{Token: token}}}
			s, err := over.Dial(t.Context(), executors.Addr().String())
			require.NoError(t, err)
			defer s.Close()
			if _, err = s.Recv(); err != io.EOF {
				require.ErrorContains(t, err, "asks for a token")
			}
			return err == io.EOF
		}, "joins shared"},
		"store, take":  {overHTTP("GET", store.URL+digest), "joins shared"},
		"store, bring": {overHTTP("PUT", store.URL+digest), "brings shared"},
	} {
		t.Run(name, func(t *testing.T) {
			var good []string
			for _, token := range []string{"one", "other", "any", "looks", "brings", "joins", "shared", "nobody"} {
				if c.admits(token) {
					good = append(good, token)
				}
			}
			require.Equal(t, c.good, strings.Join(good, " "))
		})
	}
}

// dialed serves until the test ends, and dials.
func dialed(t *testing.T, listen func(context.Context) (string, func() error)) *grpc.ClientConn {
	ctx, quit := context.WithCancel(context.Background())
	address, serve := listen(ctx)
	over := make(chan error, 1)
	go func() { over <- serve() }()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		quit()
		require.NoError(t, <-over)
	})
	return c
}
