package process

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// inPython is a model that a program of testdata serves.
func inPython(t testing.TB, program string, batches ...int) executors.Model {
	if exec.Command("python3", "-c", "import http.server").Run() != nil {
		t.Skip("python3 is missing: programs in Python are not tested")
	}
	script, err := filepath.Abs(filepath.Join("testdata", program))
	require.NoError(t, err)
	return executors.Model{
		Module:  pipelines.Module{Name: "mod", Command: []string{"python3", "-B", script}},
		Batches: batches, MaxBatch: batches[len(batches)-1],
	}
}

const picture = 3 * 224 * 224

func pictures(n int) [][]wire.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	items := make([][]wire.Tensor, n)
	for i := range items {
		data := make([]byte, picture)
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		items[i] = []wire.Tensor{{Datatype: wire.Uint8, Shape: []int64{3, 224, 224}, Data: data}}
	}
	return items
}

// BenchmarkPictures times the transfer of a batch to a program and back, beside copying its bytes
// twice.
func BenchmarkPictures(b *testing.B) {
	for _, c := range []struct {
		n        int
		unshared bool
	}{{1, false}, {1, true}, {64, false}, {64, true}} {
		n, items := c.n, pictures(c.n)
		b.Run(fmt.Sprintf("%d/unshared=%v", n, c.unshared), func(b *testing.B) {
			in := load(b, Options{Output: new(printed), unshared: c.unshared}, inPython(b, "pictures.py", n))
			b.ReportAllocs()
			b.SetBytes(int64(n * picture))
			var runs []time.Duration
			for b.Loop() {
				begin := time.Now()
				_, err := in.Run(b.Context(), items)
				require.NoError(b, err)
				runs = append(runs, time.Since(begin))
			}
			slices.Sort(runs)
			b.ReportMetric(float64(runs[len(runs)/2])/float64(copiedTwice(items)), "copiesTwice")
		})
	}
}

// copiedTwice is how long it takes at the median to copy the bytes of items there and on, into memory that has been
// written to before.
func copiedTwice(items [][]wire.Tensor) time.Duration {
	a, c := make([]byte, len(items)*picture), make([]byte, len(items)*picture)
	var runs []time.Duration
	for range 50 {
		begin := time.Now()
		to := a
		for _, item := range items {
			to = to[copy(to, item[0].Data):]
		}
		copy(c, a)
		runs = append(runs, time.Since(begin))
	}
	slices.Sort(runs)
	return runs[len(runs)/2]
}
