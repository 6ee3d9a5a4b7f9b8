package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// fake is a server of both protocols with one model "m", which doubles the
// numbers of x into y and counts its requests.
type fake struct {
	pb.UnimplementedGRPCInferenceServiceServer
	meta     wire.Metadata
	platform string
	infer    atomic.Pointer[inferFunc] // instead of doubling
	unready  atomic.Bool
	requests atomic.Int64
}

type inferFunc = func(context.Context, *wire.InferRequest) (*wire.InferResponse, error)

// set makes the server answer otherwise; nil makes it double again.
func (f *fake) set(infer inferFunc) {
	if infer == nil {
		f.infer.Store(nil)
		return
	}
	f.infer.Store(&infer)
}

// stacking takes batches along a first dimension that varies.
func stacking() *fake {
	return &fake{platform: "other", meta: wire.Metadata{
		Pipeline: "m",
		Inputs:   []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}},
		Outputs:  []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{-1, 2}}, {Name: "z", Datatype: "FP32", Shape: []int64{-1}}},
	}}
}

func (f *fake) answer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	f.requests.Add(1)
	if infer := f.infer.Load(); infer != nil {
		return (*infer)(ctx, q)
	}
	return double(q)
}

func double(q *wire.InferRequest) (*wire.InferResponse, error) {
	v, err := q.Inputs[0].Float32s()
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "", "%v", err)
	}
	for i := range v {
		v[i] *= 2
	}
	return &wire.InferResponse{Pipeline: q.Pipeline, Outputs: []wire.NamedTensor{
		{Name: "z", Tensor: wire.FromFloat32(v[:1], 1)},
		{Name: "y", Tensor: wire.FromFloat32(v, q.Inputs[0].Shape...)},
	}}, nil
}

func (f *fake) known(name string) error {
	if name != "m" {
		return wire.Errorf(wire.CodeNotFound, "", "there is no model %q", name)
	}
	return nil
}

func (f *fake) ModelReady(_ context.Context, q *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	if err := f.known(q.Name); err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return &pb.ModelReadyResponse{Ready: !f.unready.Load()}, nil
}

func (f *fake) ModelMetadata(_ context.Context, q *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	if err := f.known(q.Name); err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	m := oipgrpc.EncodeMetadata(&f.meta)
	m.Platform = f.platform
	return m, nil
}

func (f *fake) ModelInfer(ctx context.Context, m *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	c, err := oipgrpc.DecodeRequest(m)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	r, err := f.answer(ctx, &c.Request)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return oipgrpc.EncodeResponse(r, c.Raw)
}

// ServeHTTP is the same over HTTP, with the extension for binary tensors.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/models/m")
	switch {
	case r.URL.Path == "/v2":
		_, _ = io.WriteString(w, `{"name":"fake","extensions":["binary_tensor_data"]}`)
	case path == r.URL.Path:
		w.WriteHeader(http.StatusNotFound)
	case path == "/ready":
		if f.unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case path == "":
		body, _ := oip.EncodeMetadata(&f.meta)
		_, _ = io.WriteString(w, strings.Replace(string(body), oip.Platform, f.platform, 1))
	case path == "/infer":
		f.serveInfer(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fake) serveInfer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	header, _ := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
	call, err := oip.DecodeRequest(body, header)
	var out *wire.InferResponse
	if err == nil {
		out, err = f.answer(r.Context(), &call.Request)
	}
	if err != nil {
		e := err.(*wire.Error)
		w.WriteHeader(oip.Status(e.Code))
		_, _ = w.Write(oip.EncodeError(e))
		return
	}
	body, header, _ = oip.EncodeResponse(out, call.AsBinary)
	if header >= 0 {
		w.Header().Set(oip.HeaderLength, strconv.Itoa(header))
	}
	_, _ = w.Write(body)
}

// serve starts the fake and gives the address of its model.
func (f *fake) serve(t testing.TB, scheme string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.serveOn(t, scheme, l)
	return scheme + "://" + l.Addr().String() + "/m"
}

func (f *fake) serveOn(t testing.TB, scheme string, l net.Listener) {
	if scheme == "http" {
		s := &http.Server{Handler: f, ReadHeaderTimeout: time.Second}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		return
	}
	s := grpc.NewServer()
	pb.RegisterGRPCInferenceServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

// both runs a test with either protocol.
func both(t *testing.T, test func(t *testing.T, scheme string)) {
	for _, scheme := range []string{"http", "grpc"} {
		t.Run(scheme, func(t *testing.T) { test(t, scheme) })
	}
}

// quick makes tests short.
var quick = Options{LoadTimeout: 2 * time.Second, Timeout: 5 * time.Second, HealthPeriod: 20 * time.Millisecond}

func model(address string, batches ...int) executors.Model {
	m := executors.Model{Module: pipelines.Module{Name: "mod", Model: address}, Batches: batches, Outputs: []string{"y"}}
	for _, n := range batches {
		m.MaxBatch = max(m.MaxBatch, n)
	}
	return m
}

func load(t testing.TB, address string, o Options, batches ...int) *Instance {
	in, err := New(o).Load(t.Context(), model(address, batches...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	return in.(*Instance)
}

func rows(values ...float32) [][]wire.Tensor {
	items := make([][]wire.Tensor, len(values))
	for i, v := range values {
		items[i] = []wire.Tensor{wire.FromFloat32([]float32{v, -v}, 2)}
	}
	return items
}
