package sdk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdkgrpc"
	"github.com/harpagon/harpagon/sdk/sdktest"
	"github.com/harpagon/harpagon/wire/secure"
)

var input = sdk.Inputs{"x": sdk.Float32([]float32{1, 2}, 2)}

func TestInferEndToEnd(t *testing.T) {
	s := start(t, 0, time.Minute, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		out, err := c.Infer(context.Background(), "p", input, sdk.WithID("7"), sdk.WithOutputs("y"))
		require.NoError(t, err)
		y, err := out.Float32s("y")
		require.NoError(t, err)
		require.Len(t, y, 2)
		require.Equal(t, "7", out.ID())
		require.Equal(t, 1, out.Generation())
		require.Equal(t, []string{"y"}, out.Names())
		var sum time.Duration
		for _, st := range out.Stages() {
			sum += st.Queue + st.Wait + st.Compute + st.Transfer
		}
		require.Equal(t, out.Elapsed(), sum)
		_, err = out.Strings("y")
		require.ErrorContains(t, err, "FP32, not BYTES")
		_, err = out.Strings("z")
		require.ErrorContains(t, err, "it has: y")

		names, err := c.Pipelines(context.Background())
		require.NoError(t, err)
		require.Equal(t, []string{"p"}, names)
		m, err := c.Metadata(context.Background(), "p")
		require.NoError(t, err)
		require.True(t, m.Ready)
		require.Equal(t, time.Minute, m.SLO)
		require.Equal(t, []int64{2}, m.Outputs[0].Shape)
	})
}

func TestErrorsAreTyped(t *testing.T) {
	s := start(t, 0, time.Minute, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		for _, one := range []struct {
			pipeline string
			inputs   sdk.Inputs
			is       error
		}{
			{"q", input, sdk.ErrNotFound},
			{"p", nil, sdk.ErrInvalid},
			{"p", sdk.Inputs{"x": sdk.Int64([]int64{1, 2}, 2)}, sdk.ErrInvalid},
			{"p", sdk.Inputs{"x": sdk.Float32([]float32{1, 2}, 1, 2, 1)}, sdk.ErrInvalid},
		} {
			_, err := c.Infer(context.Background(), one.pipeline, one.inputs)
			require.ErrorIs(t, err, one.is)
			var e *sdk.Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Reason)
		}
		_, err := c.Metadata(context.Background(), "q")
		require.ErrorIs(t, err, sdk.ErrNotFound)
	})
}

func TestDeadlinesTravel(t *testing.T) {
	s := start(t, 2*time.Hour, 9*time.Hour, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err := c.Infer(ctx, "p", input)
		require.ErrorIs(t, err, sdk.ErrDeadline)
		var e *sdk.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "m", e.Stage, "refused before it reached the engine: %v", err)
		require.InDelta(t, time.Hour, e.Budget, float64(time.Minute))
	})
}

func TestSLOIsKeptWithoutACallersDeadline(t *testing.T) {
	s := start(t, 10*time.Second, time.Second, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		_, err := c.Infer(context.Background(), "p", input)
		var e *sdk.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "deadline", string(e.Code))
		require.Equal(t, time.Second, e.Budget)
	})
}

func TestCancelledBeforeAndAfter(t *testing.T) {
	s := start(t, time.Second, time.Minute, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for s.Measures("p").InFlight == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		_, err := c.Infer(ctx, "p", input)
		require.ErrorIs(t, err, sdk.ErrCanceled)
		past, done := context.WithDeadline(context.Background(), time.Unix(1, 0))
		defer done()
		_, err = c.Infer(past, "p", input)
		require.ErrorIs(t, err, sdk.ErrDeadline)
		require.Eventually(t, func() bool { return s.Measures("p").InFlight == 0 }, time.Minute, time.Millisecond)
	})
}

func TestManyAtOnce(t *testing.T) {
	s := start(t, 0, time.Minute, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		var group sync.WaitGroup
		errs := make(chan error, 64)
		for range 64 {
			group.Go(func() {
				_, err := c.Infer(context.Background(), "p", input)
				errs <- err
			})
		}
		group.Wait()
		for range 64 {
			require.NoError(t, <-errs)
		}
	})
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	ctx := context.Background()
	_, err := sdk.Dial(ctx, "http://")
	require.ErrorContains(t, err, "HOST:PORT")
	_, err = sdk.Dialer{Token: "a\nb"}.Dial(ctx, "127.0.0.1:1")
	require.ErrorIs(t, err, sdk.ErrOption)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = sdk.Dial(ctx, gone.URL)
	require.ErrorIs(t, err, sdk.ErrUnavailable)
	require.ErrorContains(t, err, "harpagon up")

	_, err = sdkgrpc.Dial(ctx, strings.TrimPrefix(gone.URL, "http://"))
	require.ErrorIs(t, err, sdk.ErrUnavailable)
	require.ErrorContains(t, err, "harpagon up")
	_, err = sdk.Dial(ctx, "grpc://127.0.0.1:1")
	require.ErrorIs(t, err, sdk.ErrOption)
	require.ErrorContains(t, err, "sdkgrpc")
	_, err = sdk.Dialer{Token: "x", GRPC: sdkgrpc.Connect}.Dial(ctx, "grpc://192.0.2.1:1")
	require.ErrorIs(t, err, sdk.ErrOption, "the token would travel without TLS")

	s := start(t, 0, time.Minute, "secret")
	_, err = sdk.Dial(ctx, s.url)
	require.ErrorIs(t, err, sdk.ErrInvalid)
	require.ErrorContains(t, err, "token")
	_, err = sdkgrpc.Dial(ctx, s.rpc)
	require.ErrorIs(t, err, sdk.ErrInvalid)
	require.ErrorContains(t, err, "token")
}

func TestForeignErrorsBecomeTyped(t *testing.T) {
	cause := errors.New("cable")
	c := sdk.NewClient(sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) { return nil, cause }})
	_, err := c.Infer(context.Background(), "p", nil)
	require.ErrorIs(t, err, sdk.ErrUnavailable)
	require.ErrorIs(t, err, cause)
}

func TestInferBatch(t *testing.T) {
	s := start(t, 0, time.Minute, "")
	s.each(t, func(t *testing.T, c *sdk.Client) {
		var all []sdk.Inputs
		for i := range 40 {
			all = append(all, input)
			if i%10 == 3 {
				all[i] = sdk.Inputs{"x": sdk.Float32([]float32{1, 2, 3}, 3)}
			}
		}
		results, err := c.InferBatch(context.Background(), "p", all)
		require.Len(t, results, len(all))
		require.ErrorIs(t, err, sdk.ErrInvalid)
		failed := sdk.ItemErrors(fmt.Errorf("program: %w", err))
		require.Len(t, failed, 4)
		for k, e := range failed {
			require.Equal(t, 10*k+3, e.Index)
			require.ErrorIs(t, e, sdk.ErrInvalid)
			var typed *sdk.Error
			require.ErrorAs(t, e, &typed)
			require.Contains(t, typed.Reason, "shape [3]")
		}
		for i := range results {
			require.Equal(t, i%10 != 3, results[i].OK())
			_, err := results[i].Float32s("y")
			require.Equal(t, results[i].OK(), err == nil, err)
		}
		require.Empty(t, results[3].Names())
		require.Zero(t, results[3].Elapsed())
		results, err = c.InferBatch(context.Background(), "p", nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// A token for one service grants requests to it, and to no other.
func TestATokenForOneServiceIsEnough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "alice infer:p sha256:%x\n", sha256.Sum256([]byte("hers"))), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	guard := secure.Credentials{Tokens: tokens}.Guard()
	backend := echo(0)
	backend["q"] = backend["p"]
	web := httptest.NewServer(httpapi.New(backend, httpapi.Options{Callers: guard}))
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rpc := grpcapi.New(backend, grpcapi.Options{Callers: guard})
	go func() { _ = rpc.Serve(l) }()
	defer rpc.Stop()
	for _, address := range []string{web.URL, "grpc://" + l.Addr().String()} {
		c, err := sdk.Dialer{Token: "hers", GRPC: sdkgrpc.Connect}.Dial(t.Context(), address)
		require.NoError(t, err)
		_, err = c.Infer(t.Context(), "p", input)
		require.NoError(t, err)
		_, err = c.Infer(t.Context(), "q", input)
		require.ErrorIs(t, err, sdk.ErrInvalid)
		require.ErrorContains(t, err, "scope infer:q")
		require.NoError(t, c.Close())
		_, err = sdk.Dialer{Token: "another", GRPC: sdkgrpc.Connect}.Dial(t.Context(), address)
		require.ErrorIs(t, err, sdk.ErrInvalid)
	}
}
