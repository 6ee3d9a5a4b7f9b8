package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/harpagon/harpagon/executors/serverless"
)

// instant answers calls at once, on the goroutine of the caller.
type instant http.HandlerFunc

func (f instant) RoundTrip(r *http.Request) (*http.Response, error) {
	w := recorder{header: http.Header{}}
	if r.Method == http.MethodGet {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	}
	f(&w, r)
	return &http.Response{StatusCode: http.StatusOK, Header: w.header, Body: io.NopCloser(&w.Buffer), ContentLength: int64(w.Len())}, nil
}

type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}

// BenchmarkFunction is what a request costs the gateway, its share of the call's
// coding included, with full batches and a provider that answers at once.
func BenchmarkFunction(b *testing.B) {
	g := New(Options{Invoker: serverless.NewInvoker(serverless.InvokerOptions{Client: &http.Client{Transport: instant(good)}})})
	defer g.Close()
	d := deploy(b, 1, patient)
	if err := g.Install(context.Background(), d); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	var failed atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		q := askOf("calm", 1, 2)
		for pb.Next() {
			if _, err := g.Infer(context.Background(), q); err != nil {
				failed.Add(1)
			}
		}
	})
	if failed.Load() > 0 {
		b.Fatal(failed.Load(), "failed")
	}
	b.ReportMetric(measured(g).Total().MeanBatch(), "batch")
}
