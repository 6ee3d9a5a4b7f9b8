package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// plainServer answers no more than the Open Inference Protocol requires: it has no list of
// models, reports no objective and leaves the batch dimension open.
func plainServer(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"plain","version":"1","extensions":["binary_tensor_data"]}`)
	})
	mux.HandleFunc("GET /v2/models/scores", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"scores","versions":["1"],"platform":"other",
			"inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],
			"outputs":[{"name":"y","datatype":"FP32","shape":[-1,3]}]}`)
	})
	mux.HandleFunc("POST /v2/models/scores/infer", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		header, err := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
		assert.NoError(t, err)
		call, err := oip.DecodeRequest(body, header)
		if !assert.NoError(t, err) || !assert.Len(t, call.Request.Inputs, 1) {
			return
		}
		x := call.Request.Inputs[0]
		assert.Equal(t, []int64{1, 3}, x.Shape)
		answer := wire.InferResponse{Pipeline: "scores", Outputs: []wire.NamedTensor{{Name: "y", Tensor: x.Tensor}}}
		body, header, err = oip.EncodeResponse(&answer, func(string) bool { return true })
		assert.NoError(t, err)
		w.Header().Set(oip.HeaderLength, strconv.Itoa(header))
		_, _ = w.Write(body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestLoadsAnyServerOfTheProtocol(t *testing.T) {
	at := plainServer(t).URL
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"without an objective", nil, "server reports no latency objective for scores; pass --slo, as in --slo 300ms"},
		{"an objective below zero", []string{"--slo", "-1s"}, "longer than nothing"},
		{"with one", []string{"--slo", "1m"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, append([]string{"load", "scores", "--gateway", at, "--rate", "50", "--duration", "400ms", "--warmup", "0s", "--json"}, c.args...)...)
			if c.says != "" {
				require.NotEqual(t, ExitOK, got.code)
				assert.Contains(t, got.stderr, c.says)
				return
			}
			require.Equal(t, ExitOK, got.code, got.stderr)
			var report struct {
				SLO       float64 `json:"slo_ms"`
				Requests  int
				Completed int
			}
			require.NoError(t, json.Unmarshal([]byte(got.stdout), &report))
			assert.Equal(t, 60_000.0, report.SLO)
			assert.Positive(t, report.Requests)
			assert.Equal(t, report.Requests, report.Completed)
		})
	}
}

func TestLoadsOverGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, quit := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- grpcapi.Serve(ctx, l, grpcapi.New(sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
			return sdktest.Outputs{"y": sdk.Strings([]string{"a"})}, nil
		}}, grpcapi.Options{}))
	}()
	got := run(t, "load", "p", "--gateway", "grpc://"+l.Addr().String(), "--slo", "1m", "--rate", "50", "--duration", "400ms", "--warmup", "0s", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, `"attainment": 1,`)
	quit()
	require.NoError(t, <-over)
}

// TestLoadComparesCallers: with a list of callers one run follows the other, and --fail-below is
// for scripts.
func TestLoadComparesCallers(t *testing.T) {
	at := plainServer(t).URL
	args := []string{"load", "scores", "--gateway", at, "--slo", "10s", "--duration", "100ms", "--warmup", "0s"}
	got := run(t, append(args, "--callers", "1,2", "--fail-below", "0.9")...)
	require.Zero(t, got.code, got.stderr)
	assert.Regexp(t, `(?s)scores, objective 10s.*callers +in time/s.*\n +1 .*\n +2 `, got.stdout)
	got = run(t, append(args, "--callers", "1,2", "--json")...)
	require.Zero(t, got.code, got.stderr)
	var all struct {
		Sweep []struct{ Callers int }
		Loads []struct{ Attainment float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &all))
	require.Len(t, all.Sweep, 2)
	assert.Equal(t, 2, all.Sweep[1].Callers)
	assert.Len(t, all.Loads, 2)

	got = run(t, "load", "scores", "--gateway", at, "--slo", "1ns", "--duration", "50ms", "--warmup", "0s", "--callers", "1", "--fail-below", "0.99")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "attainment of scores is 0.0000, below the 0.99 of --fail-below")
	assert.Contains(t, got.stdout, "attainment 0.0000", "what came of it is printed all the same")
	assert.Contains(t, run(t, append(args, "--fail-below", "99")...).stderr, "a share between 0 and 1")
}
