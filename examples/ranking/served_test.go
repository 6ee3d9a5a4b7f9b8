//go:build !noserver

package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// largest is the largest query of the tests.
const largest = 640

// direct is the network itself, computed item by item or as batches.
type direct struct {
	name string // as a model of a server
	mu   sync.Mutex
	net  executors.Instance
	seen []int64 // first dimension of requests, as a server
}

// open loads the network of the example.
func open(ctx context.Context, name string, batches ...int) (*direct, error) {
	net, err := gorgonia.New().Load(ctx, executors.Model{
		Module:  pipelines.Module{Name: name, Model: "ranking.onnx", Engine: "gorgonia"},
		Batches: batches, MaxBatch: batches[len(batches)-1],
	})
	return &direct{name: name, net: net}, err
}

// clicks computes a batch of items.
func (d *direct) clicks(ctx context.Context, items [][]wire.Tensor) ([]wire.Tensor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answers, err := d.net.Run(ctx, items)
	if err != nil {
		return nil, err
	}
	clicks := make([]wire.Tensor, len(answers))
	for i, a := range answers {
		clicks[i] = a[0]
	}
	return clicks, nil
}

// Infer answers a request of the Open Inference Protocol.
func (d *direct) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	columns := map[string][]wire.Tensor{}
	for _, in := range q.Inputs {
		rows, err := wire.Rows(in.Tensor)
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, "", "%v", err)
		}
		columns[in.Name] = rows
	}
	items := make([][]wire.Tensor, len(columns["wide"]))
	for i := range items {
		items[i] = []wire.Tensor{columns["wide"][i], columns["dense"][i]}
	}
	clicks, err := d.clicks(ctx, items)
	if err != nil {
		return nil, err
	}
	out, err := wire.Stack(clicks)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.seen = append(d.seen, int64(len(items)))
	d.mu.Unlock()
	return &wire.InferResponse{Pipeline: d.name, Outputs: []wire.NamedTensor{{Name: "click", Tensor: out}}}, nil
}

// Metadata reports that the first dimension is the number of items.
func (d *direct) Metadata(context.Context, string) (*wire.Metadata, error) {
	port := func(name string, n int64) pipelines.Port {
		return pipelines.Port{Name: name, Datatype: "FP32", Shape: []int64{-1, n}}
	}
	return &wire.Metadata{
		Pipeline: d.name, Ready: true,
		Inputs: []pipelines.Port{port("wide", wide), port("dense", dense)}, Outputs: []pipelines.Port{port("click", 1)},
	}, nil
}

// Pipelines names the one model.
func (d *direct) Pipelines(context.Context) ([]string, error) { return []string{d.name}, nil }

// handler is a model server of another make: its platform is not Harpagon, so batches go to it whole.
func (d *direct) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(d, httpapi.Options{}))
	mux.HandleFunc("GET /v2/models/"+d.name, func(w http.ResponseWriter, r *http.Request) {
		about, _ := d.Metadata(r.Context(), d.name)
		body, err := oip.EncodeMetadata(about)
		if err != nil {
			panic(err)
		}
		_, _ = w.Write([]byte(strings.Replace(string(body), oip.Platform, "test", 1)))
	})
	return mux
}

// serveAsCommand is what a pool with a command starts: it serves the network on a given
// socket, until it is ended.
func serveAsCommand() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	d, err := open(context.Background(), os.Getenv("HARPAGON_MODULE"), largest)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("unix", os.Getenv("HARPAGON_SOCKET"))
	if err != nil {
		panic(err)
	}
	go func() { _ = http.Serve(l, d.handler()) }()
	<-end
	os.Exit(0)
}
