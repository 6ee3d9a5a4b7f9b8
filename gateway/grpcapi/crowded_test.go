package grpcapi

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire/listen"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// TestCallersBeyondTheMostConnectionsAreRefused by the status that their first call has.
func TestCallersBeyondTheMostConnectionsAreRefused(t *testing.T) {
	i := securetest.New(t, "ours").Identity(t)
	for name, c := range map[string]secure.Credentials{"plain": {}, "TLS": {Identity: i}} {
		t.Run(name, func(t *testing.T) {
			over, err := c.Identity.Server()
			require.NoError(t, err)
			l, err := listen.GRPC("127.0.0.1:0", c, 1)
			require.NoError(t, err)
			ctx, quit := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, l, New(&backend{}, Options{TLS: over})) }()
			idle, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			proof := insecure.NewCredentials()
			if over != nil {
				proof = credentials.NewTLS(i.Client("127.0.0.1"))
			}
			conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(proof))
			require.NoError(t, err)
			defer conn.Close()
			_, err = pb.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, question())
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			require.ErrorContains(t, err, "--max-connections")
			require.NoError(t, idle.Close()) // else it is waited for
			quit()
			require.NoError(t, <-done)
		})
	}
}
