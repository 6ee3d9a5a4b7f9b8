package grpcapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/remote"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// The remote engine of one Harpagon calls the pipeline of another, by either protocol and with
// a token.
func TestASecondHarpagonIsARemoteEngine(t *testing.T) {
	g := instant(t, gateway.Options{})
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, quit := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- Serve(ctx, l, New(g, Options{Callers: secure.Credentials{Token: "secret"}.Guard()})) }()
	defer func() {
		quit()
		require.NoError(t, <-over)
	}()
	web := httptest.NewServer(httpapi.New(g, httpapi.Options{Callers: secure.Credentials{Token: "secret"}.Guard()}))
	defer web.Close()
	t.Setenv("OTHER_TOKEN", "secret")

	for _, address := range []string{"grpc://" + l.Addr().String(), web.URL} {
		m := executors.Model{
			Module:  pipelines.Module{Name: "there", Model: address + "/p?token_variable=OTHER_TOKEN"},
			Batches: []int{1, 3}, MaxBatch: 3, Outputs: []string{"y"},
		}
		in, err := remote.New(remote.Options{}).Load(t.Context(), m)
		require.NoError(t, err, address)
		require.Equal(t, []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}, in.Signature().Inputs)
		item := []wire.Tensor{wire.FromFloat32([]float32{1, 2}, 2)}
		answers, err := in.Run(t.Context(), [][]wire.Tensor{item, item, item})
		require.NoError(t, err)
		require.Len(t, answers, 3)
		require.Equal(t, []int64{2}, answers[2][0].Shape)
		require.NoError(t, in.Close())

		m.Module.Model = strings.Split(m.Module.Model, "?")[0]
		_, err = remote.New(remote.Options{}).Load(t.Context(), m)
		require.ErrorContains(t, err, "requires a token")
	}
}
