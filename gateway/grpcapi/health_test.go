package grpcapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
)

// changing is a backend whose readiness changes: of the gateway, and of pipeline "p".
type changing struct {
	backend
	gateway, model atomic.Bool
}

func (c *changing) Ready() error {
	if !c.gateway.Load() {
		return errors.New("not yet")
	}
	return nil
}

func (c *changing) Metadata(ctx context.Context, name string) (*wire.Metadata, error) {
	if name == "coming" {
		return nil, wire.Errorf(wire.CodeUnavailable, "", "exists and is not ready")
	}
	m, err := c.backend.Metadata(ctx, name)
	if err == nil {
		m.Ready = c.model.Load()
	}
	return m, err
}

// named makes tokens that are good for some scopes.
func named(t *testing.T, scopes map[string]string) *secure.Tokens {
	path, text := filepath.Join(t.TempDir(), "tokens"), ""
	for _, token := range slices.Sorted(maps.Keys(scopes)) {
		text += fmt.Sprintf("%s %s sha256:%x\n", token, scopes[token], sha256.Sum256([]byte(token)))
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	all, err := secure.LoadTokens(path)
	require.NoError(t, err)
	return all
}

func TestHealthIsReadiness(t *testing.T) {
	b := &changing{}
	c := health.NewHealthClient(dial(t, listening(t, b, Options{})))
	for _, ready := range []bool{false, true} {
		b.gateway.Store(ready)
		b.model.Store(!ready)
		for service, want := range map[string]bool{"": ready, "inference.GRPCInferenceService": ready, "p": !ready, "coming": false} {
			got, err := c.Check(t.Context(), &health.HealthCheckRequest{Service: service})
			require.NoError(t, err)
			require.Equal(t, serving(want), got.Status, service)
		}
		all, err := c.List(t.Context(), &health.HealthListRequest{})
		require.NoError(t, err)
		require.Len(t, all.Statuses, 2)
		require.Equal(t, serving(!ready), all.Statuses["p"].Status)
	}
	_, err := c.Check(t.Context(), &health.HealthCheckRequest{Service: "q"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestHealthIsWatched(t *testing.T) {
	b, stopping := &changing{}, make(chan struct{})
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	c := health.NewHealthClient(dial(t, listening(t, b, Options{Bytes: held, Stopping: stopping})))
	watch := func(service string) func() (health.HealthCheckResponse_ServingStatus, error) {
		w, err := c.Watch(t.Context(), &health.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		return func() (health.HealthCheckResponse_ServingStatus, error) {
			m, err := w.Recv()
			return m.GetStatus(), err
		}
	}
	next := func(of func() (health.HealthCheckResponse_ServingStatus, error)) health.HealthCheckResponse_ServingStatus {
		s, err := of()
		require.NoError(t, err)
		return s
	}
	whole, model, unknown := watch(""), watch("p"), watch("q")
	require.Equal(t, serving(false), next(whole))
	require.Equal(t, serving(false), next(model))
	require.Equal(t, health.HealthCheckResponse_SERVICE_UNKNOWN, next(unknown))
	b.model.Store(true)
	require.Equal(t, serving(true), next(model))
	b.gateway.Store(true)
	require.Equal(t, serving(true), next(whole))
	b.gateway.Store(false)
	require.Equal(t, serving(false), next(whole))
	close(stopping)
	for _, w := range []func() (health.HealthCheckResponse_ServingStatus, error){whole, model, unknown} {
		_, err := w()
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}

// Without a token only the whole gateway's health is readable; a token gives the health of the
// models that it may call, and any token gives reflection.
func TestHealthAndReflectionByToken(t *testing.T) {
	b := &changing{}
	b.gateway.Store(true)
	tokens := named(t, map[string]string{"of-p": "infer:p", "reader": "read"})
	conn := dial(t, listening(t, b, Options{Callers: secure.Credentials{Token: "of all", Tokens: tokens}.Guard()}))
	c := health.NewHealthClient(conn)
	with := func(token string) context.Context {
		if token == "" {
			return t.Context()
		}
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	}
	check := func(token, service string) error {
		_, err := c.Check(with(token), &health.HealthCheckRequest{Service: service})
		return err
	}
	watched := func(token, service string) error {
		w, err := c.Watch(with(token), &health.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		_, err = w.Recv()
		return err
	}
	list := func(token, _ string) error {
		_, err := c.List(with(token), &health.HealthListRequest{})
		return err
	}
	reflected := func(token, _ string) error {
		r, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(with(token))
		require.NoError(t, err)
		_ = r.Send(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
		_, err = r.Recv()
		return err
	}
	for _, test := range []struct {
		name    string
		ask     func(token, service string) error
		service string
		may     []string
	}{
		{"the gateway", check, "", []string{"", "of-p", "reader", "of all", "wrong"}},
		{"a pipeline", check, "p", []string{"of-p", "of all"}},
		{"another", check, "coming", []string{"of all"}},
		{"all", list, "", []string{"reader", "of all"}},
		{"the gateway, watched", watched, "", []string{"of-p", "reader", "of all"}},
		{"a pipeline, watched", watched, "p", []string{"of-p", "of all"}},
		{"another, watched", watched, "coming", []string{"of all"}},
		{"reflection", reflected, "", []string{"of-p", "reader", "of all"}},
	} {
		for _, token := range []string{"", "wrong", "of-p", "reader", "of all"} {
			want := codes.Unauthenticated
			if slices.Contains(test.may, token) {
				want = codes.OK
			}
			require.Equal(t, want, status.Code(test.ask(token, test.service)), "%s by %q", test.name, token)
		}
	}
}

// A tool without the protocol's file can learn it, for as long as it likes.
func TestReflection(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	conn := dial(t, listening(t, &backend{}, Options{Bytes: held}))
	ctx, leave := context.WithCancel(t.Context())
	r, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	ask := func(q *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		require.NoError(t, r.Send(q))
		a, err := r.Recv()
		require.NoError(t, err)
		return a
	}
	var names []string
	for _, s := range ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().Service {
		names = append(names, s.Name)
	}
	require.Subset(t, names, []string{"inference.GRPCInferenceService", "grpc.health.v1.Health"})
	for range 2 * mostOther / len("inference.GRPCInferenceService") {
		a := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "inference.GRPCInferenceService"}})
		require.NotEmpty(t, a.GetFileDescriptorResponse().GetFileDescriptorProto())
	}
	leave()
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}
