package grpcapi

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// A client in another language, made of KServe's file of the protocol by gRPC's
// own library for Node.js. The environment names both:
//
//	npm install --prefix DIR --ignore-scripts @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1
//	HARPAGON_GRPC_NODE=DIR/node_modules
//	HARPAGON_OIP_PROTO=$(go mod download -json github.com/kserve/kserve@v0.15.0 | jq -r .Dir)/docs/predict-api/v2/grpc_predict_v2.proto
func TestAClientOfOthers(t *testing.T) {
	modules, proto := os.Getenv("HARPAGON_GRPC_NODE"), os.Getenv("HARPAGON_OIP_PROTO")
	if modules == "" || proto == "" {
		t.Skip("HARPAGON_GRPC_NODE and HARPAGON_OIP_PROTO name no client of others; .ci/run gets one where it finds npm")
	}
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, quit := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		over <- Serve(ctx, l, New(instant(t, gateway.Options{}), Options{Callers: secure.Credentials{Token: "secret"}.Guard(), Version: "1.2"}))
	}()
	defer func() {
		quit()
		require.NoError(t, <-over)
	}()
	client := exec.Command("node", "testdata/client.mjs", proto, l.Addr().String(), "secret")
	client.Env = append(os.Environ(), "NODE_PATH="+modules)
	client.Stderr = os.Stderr
	said, err := client.Output()
	require.NoError(t, err)

	type port struct {
		Name, Datatype string
		Shape          []int64
	}
	type answer struct {
		Code    codes.Code
		Details string
		ID      string
		Outputs []struct {
			port
			Contents struct {
				Floats []float32 `json:"fp32_contents"`
			}
		}
	}
	var got struct {
		Live                           struct{ Live bool }
		Ready, Model                   struct{ Ready bool }
		Server                         struct{ Name, Version string }
		Metadata                       struct{ Inputs, Outputs []port }
		Typed, Raw, Misshapen, Unknown answer
	}
	require.NoError(t, json.Unmarshal(said, &got), string(said))
	require.True(t, got.Live.Live)
	require.True(t, got.Ready.Ready)
	require.True(t, got.Model.Ready)
	require.Equal(t, "harpagon", got.Server.Name)
	require.Equal(t, []port{{"x", "FP32", []int64{2}}}, got.Metadata.Inputs)
	require.Equal(t, []port{{"y", "FP32", []int64{2}}}, got.Metadata.Outputs)
	require.Equal(t, "7", got.Typed.ID)
	require.Len(t, got.Typed.Outputs[0].Contents.Floats, 2)
	require.Equal(t, port{"y", "FP32", []int64{2}}, got.Raw.Outputs[0].port)
	require.Contains(t, string(said), `"raw_output_contents":[{"type":"Buffer","data":[`)
	require.Equal(t, codes.InvalidArgument, got.Misshapen.Code)
	require.Contains(t, got.Misshapen.Details, "has shape [3] where [2] is declared")
	require.Equal(t, codes.NotFound, got.Unknown.Code)
}
