package remote

import (
	"context"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

func TestABatchIsOneRequest(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme), quick, 1, 2, 3, 4)
		require.EqualValues(t, 4, f.requests.Load(), "warmed up at all sizes")
		require.Equal(t, pipelines.Signature{
			Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
			Outputs: []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{2}}},
		}, in.Signature())
		answers, err := in.Run(t.Context(), rows(1, 2, 3))
		require.NoError(t, err)
		require.EqualValues(t, 5, f.requests.Load())
		for i, a := range answers {
			v, err := a[0].Float32s()
			require.NoError(t, err)
			require.Equal(t, []int64{2}, a[0].Shape)
			require.Equal(t, []float32{2 * float32(i+1), -2 * float32(i+1)}, v)
		}
		_, err = in.Run(t.Context(), rows(1, 2, 3, 4, 5))
		require.ErrorIs(t, err, wire.ErrInvalid, "more than were loaded")
		require.NoError(t, in.Close())
		_, err = in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
	})
}

// TestConstantsOfAServer sends a scalar once with a batch that is stacked, and a
// constant with a batch dimension once for each request.
func TestConstantsOfAServer(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		f.meta.Inputs = append(f.meta.Inputs, pipelines.Port{Name: "sr", Datatype: "INT64", Shape: []int64{}}, pipelines.Port{Name: "mode", Datatype: "BYTES", Shape: []int64{-1}})
		var seen atomic.Pointer[wire.InferRequest]
		f.set(func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
			slices.SortFunc(q.Inputs, func(a, b wire.NamedTensor) int { return strings.Compare(b.Name, a.Name) }) // x first
			seen.Store(q)
			return double(q)
		})
		m := model(f.serve(t, scheme), 1, 3)
		m.Module.Inputs = []pipelines.Binding{{Name: "x", From: build.FromInput("x")}, {Name: "sr", Value: 16000.0}, {Name: "mode", Value: "fast"}}
		e := New(quick)
		sig, err := e.(executors.Signer).Signature(m.Module)
		require.NoError(t, err)
		require.Len(t, sig.Inputs, 3)
		in, err := e.Load(t.Context(), m)
		require.NoError(t, err)
		defer in.Close()
		require.Equal(t, []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}, in.Signature().Inputs)
		answers, err := in.Run(t.Context(), rows(1, 2, 3))
		require.NoError(t, err)
		require.Len(t, answers, 3)
		q := seen.Load()
		require.Equal(t, []string{"x", "sr", "mode"}, []string{q.Inputs[0].Name, q.Inputs[1].Name, q.Inputs[2].Name})
		require.Equal(t, []int64{3, 2}, q.Inputs[0].Shape)
		require.Equal(t, wire.FromInt64([]int64{16000}).Reshape().Data, q.Inputs[1].Data)
		require.Empty(t, q.Inputs[1].Shape)
		require.Equal(t, wire.FromStrings([]string{"fast", "fast", "fast"}), q.Inputs[2].Tensor)
		m.Module.Inputs[1].Value = "slow"
		_, err = e.Load(t.Context(), m)
		require.ErrorContains(t, err, `input "sr", which is INT64 []: the constant holds slow where INT64 is taken`)
	})
}

func TestUnbatchedModelsOfAServer(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		m := model(stacking().serve(t, scheme), 1)
		m.Module.Unbatched = true
		in, err := New(quick).Load(t.Context(), m)
		require.NoError(t, err)
		defer in.Close()
		require.Equal(t, []int64{-1, 2}, in.Signature().Inputs[0].Shape)
		answers, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32([]float32{1, 2}, 1, 2)}})
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2}, answers[0][0].Shape)
		m.Module.Unbatched, m.Module.BatchAxis = false, map[string]int{"x": 1}
		_, err = New(quick).Load(t.Context(), m)
		require.ErrorContains(t, err, "batch_axis is supported by the onnxruntime engines only")
	})
}

func TestAPipelineGetsEachRequestByItself(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		f.platform = oip.Platform
		f.meta.Inputs[0].Shape, f.meta.Outputs[0].Shape = []int64{2}, []int64{2}
		in := load(t, f.serve(t, scheme), quick, 40)
		f.requests.Store(0)
		answers, err := in.Run(t.Context(), rows(make([]float32, 40)...))
		require.NoError(t, err)
		require.Len(t, answers, 40)
		require.EqualValues(t, 40, f.requests.Load())
	})
}

// Whatever the shapes, every request gets its own answer.
func TestEveryRequestGetsItsOwnAnswer(t *testing.T) {
	f := stacking()
	f.meta.Inputs[0].Shape, f.meta.Outputs[0].Shape = []int64{-1, -1}, []int64{-1, -1}
	address := f.serve(t, "grpc")
	in := load(t, address, quick, 8)
	single := load(t, address+"?batch=single", quick, 8)
	single.signature.Inputs[0].Shape, single.signature.Outputs[0].Shape = []int64{-1}, []int64{-1}
	rapid.Check(t, func(t *rapid.T) {
		items := make([][]wire.Tensor, rapid.IntRange(1, 8).Draw(t, "n"))
		for i := range items {
			v := rapid.SliceOfN(rapid.Float32Range(-9, 9), 1, 3).Draw(t, "x")
			items[i] = []wire.Tensor{wire.FromFloat32(v)}
		}
		for _, in := range []*Instance{in, single} {
			answers, err := in.Run(context.Background(), items)
			require.NoError(t, err)
			for i := range items {
				want, _ := items[i][0].Float32s()
				have, err := answers[i][0].Float32s()
				require.NoError(t, err)
				require.Len(t, have, len(want))
				for k := range want {
					require.Equal(t, 2*want[k], have[k])
				}
			}
		}
	})
}

func TestWrongAnswersAreTyped(t *testing.T) {
	tensor := func(name string, t wire.Tensor) *wire.InferResponse {
		return &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: name, Tensor: t}}}
	}
	for want, give := range map[string]*wire.InferResponse{
		`without output "y"`:                         tensor("w", wire.FromFloat32(make([]float32, 4), 2, 2)),
		"as FP64 [2 2] where its metadata name FP32": tensor("y", wire.FromFloat64(make([]float64, 4), 2, 2)),
		"as FP32 [4]":                                tensor("y", wire.FromFloat32(make([]float32, 4), 4)),
		"as FP32 [1 2]":                              tensor("y", wire.FromFloat32(make([]float32, 2), 1, 2)),
		"cannot be read":                             tensor("y", wire.Tensor{Datatype: "FP31", Shape: []int64{2, 2}}),
		"needs 4 elements":                           tensor("y", wire.Tensor{Datatype: "FP32", Shape: []int64{2, 2}, Data: make([]byte, 12)}),
	} {
		both(t, func(t *testing.T, scheme string) {
			f := stacking()
			in := load(t, f.serve(t, scheme), quick, 2)
			f.set(func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) { return give, nil })
			_, err := in.Run(t.Context(), rows(1, 2))
			require.ErrorIs(t, err, wire.ErrInternal)
			require.ErrorContains(t, err, want)
			f.set(nil)
			_, err = in.Run(t.Context(), rows(1, 2))
			require.NoError(t, err, "the instance lives on")
		})
	}
}

func TestWhatTheServerRefusesKeepsItsCode(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme), quick, 1)
		for _, code := range []wire.Code{wire.CodeInvalid, wire.CodeOverloaded, wire.CodeDeadline, wire.CodeInternal} {
			f.set(func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
				return nil, wire.Errorf(code, "there", "because")
			})
			_, err := in.Run(t.Context(), rows(1))
			require.Equal(t, wire.Errorf(code, "mod", "at there: because"), err)
		}
	})
}

// TestTheTokenIsNotRepeated by errors, though the server does so.
func TestTheTokenIsNotRepeated(t *testing.T) {
	t.Setenv("TOKEN_OF_THE_TEST", "secret-2f9c")
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme)+"?token_variable=TOKEN_OF_THE_TEST", quick, 1)
		f.set(func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
			return nil, wire.Errorf(wire.CodeInvalid, "there", "not for secret-2f9c")
		})
		_, err := in.Run(t.Context(), rows(1))
		require.Equal(t, wire.Errorf(wire.CodeInvalid, "mod", "at there: not for (token)"), err)
	})
}

func TestOnlyWhatWasNotComputedIsSentAgain(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme), quick, 1)
		f.requests.Store(0)
		f.set(func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
			if f.requests.Load() < attempts {
				return nil, wire.Errorf(wire.CodeUnavailable, "", "not yet")
			}
			return double(q)
		})
		_, err := in.Run(t.Context(), rows(1))
		require.NoError(t, err)
		require.EqualValues(t, attempts, f.requests.Load())

		f.requests.Store(-10)
		_, err = in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.EqualValues(t, attempts-10, f.requests.Load())

		f.requests.Store(0)
		f.set(func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
			return nil, wire.Errorf(wire.CodeInternal, "", "broken")
		})
		_, err = in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrInternal)
		require.EqualValues(t, 1, f.requests.Load())
	})
}

// A server that is killed over a batch may have computed it.
func TestALostAnswerIsNotRequestedAgain(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		cut := &cutter{Listener: l, conns: make(chan net.Conn, 100)}
		f.serveOn(t, scheme, cut)
		in := load(t, scheme+"://"+l.Addr().String()+"/m", Options{HealthPeriod: time.Hour}, 1)
		f.requests.Store(0)
		f.set(func(ctx context.Context, _ *wire.InferRequest) (*wire.InferResponse, error) {
			cut.cut()
			<-ctx.Done()
			return nil, wire.Errorf(wire.CodeCanceled, "", "cut")
		})
		_, err = in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorContains(t, err, "ended the connection")
		require.EqualValues(t, 1, f.requests.Load())
		f.set(nil)
		_, err = in.Run(t.Context(), rows(1))
		require.NoError(t, err, "a new connection is made")
	})
}

func TestSlowAndNeverAndStrangers(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme)+"?timeout=1s", quick, 1)
		f.set(func(ctx context.Context, _ *wire.InferRequest) (*wire.InferResponse, error) {
			<-ctx.Done()
			return nil, wire.Errorf(wire.CodeCanceled, "", "gone")
		})
		_, err := in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorContains(t, err, "has not answered within 1s")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = in.Run(ctx, rows(1))
		require.ErrorIs(t, err, wire.ErrCanceled)
	})
	for name, say := range map[string]string{
		"silent": "", "garbage": "\x00\x01\x02 this is nothing\r\n\r\n", "page": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"endless": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		both(t, func(t *testing.T, scheme string) {
			address := stranger(t, say)
			begin := time.Now()
			_, err := New(Options{LoadTimeout: 300 * time.Millisecond}).Load(t.Context(), model(scheme+"://"+address+"/m", 1))
			require.Error(t, err, name)
			require.Less(t, time.Since(begin), time.Minute)
			t.Log(name, err)
		})
	}
}

func TestLoading(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		f.unready.Store(true)
		address := f.serve(t, scheme)
		_, err := New(Options{LoadTimeout: 2 * time.Second}).Load(t.Context(), model(address, 1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorContains(t, err, "reports that the model is not ready")
		time.AfterFunc(100*time.Millisecond, func() { f.unready.Store(false) })
		load(t, address, quick, 1)

		_, err = New(quick).Load(t.Context(), model(address+"x", 1))
		require.ErrorIs(t, err, wire.ErrNotFound)
		m := model(address, 1)
		m.Outputs = []string{"label"}
		_, err = New(quick).Load(t.Context(), m)
		require.ErrorContains(t, err, `has no output "label"; it has y, z`)

		f.set(func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
			if q.Inputs[0].Shape[0] > 4 {
				return nil, wire.Errorf(wire.CodeInvalid, "", "the batch size must be <= 4")
			}
			return double(q)
		})
		_, err = New(quick).Load(t.Context(), model(address, 1, 4, 8))
		require.ErrorContains(t, err, "refuses a batch of 8")
		require.ErrorContains(t, err, "must be <= 4")
		f.set(nil)
		f.meta.Outputs = nil
		_, err = New(quick).Load(t.Context(), model(address, 1))
		require.ErrorContains(t, err, "no inputs or no outputs")
	})
	_, err := New(Options{LoadTimeout: 100 * time.Millisecond}).Load(t.Context(), model("grpc://127.0.0.1:1/m", 1))
	require.ErrorContains(t, err, "no server answers at 127.0.0.1:1")
	t.Setenv("NO_TOKEN", "")
	_, err = New(quick).Load(t.Context(), model("grpc://127.0.0.1:1/m?token_variable=NO_TOKEN", 1))
	require.ErrorContains(t, err, "environment variable NO_TOKEN")
}

func TestHealth(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		in := load(t, f.serve(t, scheme), quick, 1)
		f.unready.Store(true)
		require.Eventually(t, func() bool { return in.isDown() != nil }, 10*time.Second, time.Millisecond)
		f.requests.Store(0)
		_, err := in.Run(t.Context(), rows(1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.Zero(t, f.requests.Load(), "nothing was sent to it")
		f.unready.Store(false)
		require.Eventually(t, func() bool { return in.isDown() == nil }, 10*time.Second, time.Millisecond)
		_, err = in.Run(t.Context(), rows(1))
		require.NoError(t, err)
	})
}

// TestStateOfAServer pairs what goes back in the declaration, which metadata over gRPC cannot.
func TestStateOfAServer(t *testing.T) {
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		f.meta.Inputs = append(f.meta.Inputs, pipelines.Port{Name: "sum", Datatype: "FP32", Shape: []int64{-1, 2}})
		f.set(func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
			slices.SortFunc(q.Inputs, func(a, b wire.NamedTensor) int { return strings.Compare(b.Name, a.Name) }) // x first
			x, err := q.Inputs[0].Float32s()
			if err != nil {
				return nil, err
			}
			sum, err := q.Inputs[1].Float32s()
			if err != nil {
				return nil, err
			}
			for i := range sum {
				sum[i] += x[i]
			}
			return &wire.InferResponse{Pipeline: q.Pipeline, Outputs: []wire.NamedTensor{
				{Name: "y", Tensor: wire.FromFloat32(sum, q.Inputs[0].Shape...)}, {Name: "z", Tensor: wire.FromFloat32(x[:len(x)/2], q.Inputs[0].Shape[0])},
			}}, nil
		})
		m := executors.Model{Module: pipelines.Module{
			Name: "m", Model: f.serve(t, scheme), Fanout: 1, State: true, Loops: map[string]string{"sum": "y"},
			Inputs: []pipelines.Binding{{Name: "x", From: build.FromInput("x")}},
		}, Outputs: []string{"z"}, Batches: []int{1, 2}, MaxBatch: 2}
		in, err := New(quick).Load(t.Context(), m)
		require.NoError(t, err)
		defer func() { require.NoError(t, in.Close()) }()
		sig := in.Signature()
		require.Equal(t, pipelines.Port{Name: "sum", Datatype: "FP32", Shape: []int64{2}, Loop: "y"}, sig.Inputs[1])
		require.Len(t, sig.Outputs, 2, "state is asked for, whoever asks for what")
		states := []wire.Tensor{wire.Zeros("FP32", []int64{2}), wire.Zeros("FP32", []int64{2})}
		for range 3 {
			items := rows(1, 10)
			for i := range items {
				items[i] = append(items[i], states[i])
			}
			answers, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			for i := range states {
				states[i] = answers[i][slices.IndexFunc(sig.Outputs, func(p pipelines.Port) bool { return p.Name == "y" })]
			}
		}
		for i, want := range []float32{3, 30} {
			v, err := states[i].Float32s()
			require.NoError(t, err)
			require.Equal(t, want, v[0], "of each stream its own")
		}
		m.Module.Loops = map[string]string{"sum": "nothing"}
		_, err = New(quick).Load(t.Context(), m)
		require.ErrorContains(t, err, `it has no input "sum" with an output "nothing" of the same datatype; it has the inputs "sum", "x"`)
		m.Module.Loops = map[string]string{"sum": "y"}
		f.meta.Inputs[1].Shape = []int64{-1, -1}
		_, err = New(quick).Load(t.Context(), m)
		require.ErrorContains(t, err, `its input "sum" keeps state, of a shape [-1] that varies for one request`)
	})
}

func TestSignatures(t *testing.T) {
	f := stacking()
	e := New(quick)
	sig, err := executors.Signatures(e)(pipelines.Module{Name: "m", Model: f.serve(t, "grpc")})
	require.NoError(t, err)
	assert.Equal(t, []int64{2}, sig.Inputs[0].Shape)
	assert.Len(t, sig.Outputs, 2)
	sig, err = executors.Signatures(e)(pipelines.Module{Name: "m", Model: "grpc://127.0.0.1:1/m"})
	require.NoError(t, err)
	assert.Empty(t, sig, "nothing is known of a server that is not there")
	digest, err := content.Digest(pipelines.Module{Model: "grpc://127.0.0.1:1/m"})
	require.NoError(t, err)
	assert.NotEmpty(t, digest)
}

// TestNothingLeaks runs many batches, good and bad, and loads over and over.
func TestNothingLeaks(t *testing.T) {
	batches := 500
	if os.Getenv("HARPAGON_LONG") != "" {
		batches = 10_000
	}
	both(t, func(t *testing.T, scheme string) {
		f := stacking()
		address := f.serve(t, scheme)
		in := load(t, address, Options{}, 2)
		f.set(func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
			if q.Inputs[0].Data[3]&1 == 1 { // of odd exponent
				return nil, wire.Errorf(wire.CodeInternal, "", "no")
			}
			return double(q)
		})
		run := func(n int) {
			for i := range n {
				_, _ = in.Run(t.Context(), rows(float32(i%5), 1))
			}
			for range n / 50 {
				in, err := New(Options{}).Load(t.Context(), model(address, 1))
				if err == nil {
					_ = in.Close()
				}
			}
		}
		run(100)
		goroutines, files, heap := settled(t)
		run(batches)
		more, open, grown := settled(t)
		t.Logf("after %d batches: goroutines %d, was %d; files %d, was %d; heap %d KiB, was %d", batches, more, goroutines, open, files, grown>>10, heap>>10)
		require.LessOrEqual(t, more, goroutines+5)
		require.LessOrEqual(t, open, files+5)
		require.LessOrEqual(t, grown, heap+4<<20)
	})
}

// settled counts goroutines, open files and bytes on the heap, once they have
// stopped to fall.
func settled(t *testing.T) (goroutines, files int, heap uint64) {
	least := func() int {
		n := runtime.NumGoroutine()
		for range 50 {
			time.Sleep(2 * time.Millisecond)
			n = min(n, runtime.NumGoroutine())
		}
		return n
	}
	goroutines = least()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log("this system does not report which files are open")
	}
	return goroutines, len(all), m.HeapAlloc
}

// cutter ends the connections that it has accepted.
type cutter struct {
	net.Listener
	conns chan net.Conn
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.conns <- conn
	}
	return conn, err
}

// cut ends the connections that there are at the call. The client makes a new
// one as soon as its own has ended, which may be before this returns: that one
// is left alone.
func (c *cutter) cut() {
	for range len(c.conns) {
		_ = (<-c.conns).Close()
	}
}

// stranger answers everybody with the same bytes, or nothing.
func stranger(t *testing.T, say string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = conn.Write([]byte(say))
		}
	}()
	return l.Addr().String()
}
