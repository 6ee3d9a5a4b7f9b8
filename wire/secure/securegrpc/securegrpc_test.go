package securegrpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// TestWrongCertificatesAreNamed: the error names what is wrong with a certificate and what to
// do, although gRPC keeps only the text of errors.
func TestWrongCertificatesAreNamed(t *testing.T) {
	ours, theirs := securetest.New(t, "ours"), securetest.New(t, "theirs")
	server := ours.Identity(t)
	none, err := secure.Load(secure.Files{CA: ours.Issue(t, t.TempDir(), time.Hour).CA})
	require.NoError(t, err)
	mixed := ours.Issue(t, t.TempDir(), time.Hour)
	stranger := theirs.Issue(t, t.TempDir(), time.Hour)
	mixed.Cert, mixed.Key = stranger.Cert, stranger.Key
	foreign, err := secure.Load(mixed)
	require.NoError(t, err)

	config, err := server.Server()
	require.NoError(t, err)
	secured := listen(t, grpc.Creds(credentials.NewTLS(config)))
	open := listen(t)
	for name, c := range map[string]struct {
		address string
		proof   *secure.Identity
		remedy  string
	}{
		"of the CA":                {secured, server, ""},
		"none, where none is need": {secured, none, ""},
		"another CA believed":      {secured, theirs.Identity(t), "give that CA with --tls-ca"},
		"shown of another CA":      {secured, foreign, "see that --tls-cert is from its CA"},
		"to a port without TLS":    {open, server, "does not speak TLS"},
	} {
		err := call(t, c.address, securegrpc.Dial(c.proof))
		if c.remedy == "" {
			assert.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		flat := errors.New(err.Error()) // as it comes through programs that keep no types
		assert.ErrorContains(t, secure.Explain(flat, c.address), c.remedy, name)
	}
}

func listen(t *testing.T, o ...grpc.ServerOption) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(o...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func call(t *testing.T, address string, proof credentials.TransportCredentials) error {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(proof))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err = grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		// The server's error about a certificate may be lost when the client writes first.
		if err == nil || !strings.Contains(err.Error(), "broken pipe") && !strings.Contains(err.Error(), "reset by peer") {
			return err
		}
	}
}
