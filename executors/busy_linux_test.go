package executors

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proc writes a folder as /proc is: this process 10, its child 11 and
// grandchild 12, and a stranger 20.
func proc(t *testing.T, files map[string]string) string {
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return folder
}

const (
	processors = "cpu  100 200 300 4000 50 6 7 8 9 10\ncpu0 50 100 150 2000 25 3 4 4 4 5\ncpu1 50 100 150 2000 25 3 3 4 5 5\nintr 1 2 3\n"
	me         = "10 (har) pagon) S 1 10 10 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 0 0 0\n"
	child      = "11 (engine) S 10 10 10 0 -1 0 0 0 0 0 30 0 0 0 20 0 1 0 0 0 0\n"
	grandchild = "12 (its own) S 11 10 10 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 0 0 0\n"
	stranger   = "20 (other) S 1 10 10 0 -1 0 0 0 0 0 1000 0 0 0 20 0 1 0 0 0 0\n"
)

func TestReadsProcessorsAndProcesses(t *testing.T) {
	folder := proc(t, map[string]string{"stat": processors, "10/stat": me, "11/stat": child, "12/stat": grandchild, "20/stat": stranger})
	r, err := read(folder, 10)
	require.NoError(t, err)
	assert.Equal(t, 2, r.Cores)
	assert.Equal(t, 621*tick, r.All, "all but idle, waiting for disks, and guests, who are counted already")
	assert.Equal(t, (127+30+5)*tick, r.Own)
}

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":           {},
		"no processors":     {"stat": "cpu  1 2 3 4 5 6 7 8\n", "10/stat": me},
		"not numbers":       {"stat": "cpu  1 x 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n", "10/stat": me},
		"no such process":   {"stat": processors, "20/stat": stranger},
		"a broken line":     {"stat": processors, "10/stat": "10 (x"},
		"a line cut short":  {"stat": processors, "10/stat": "10 (x) S 1 2\n"},
		"times not numbers": {"stat": processors, "10/stat": "10 (x) S 1 10 10 0 -1 0 0 0 0 0 a b c d 20 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(proc(t, files), 10)
			assert.ErrorIs(t, err, ErrUseUnknown)
		})
	}
}

func TestThisMachineReportsItsUse(t *testing.T) {
	before, err := ReadProcessors()
	require.NoError(t, err)
	for spent := time.Duration(0); spent < 5*tick; { // compute until the kernel has counted it
		for i, x := 0, 1.0; i < 1e6; i++ {
			x *= 1.0000001
		}
		now, err := ReadProcessors()
		require.NoError(t, err)
		spent = now.Own - before.Own
	}
	after, err := ReadProcessors()
	require.NoError(t, err)
	use := after.Since(before)
	assert.True(t, use.Known())
	assert.Positive(t, use.Own)
	assert.LessOrEqual(t, use.Own, float64(use.Cores))
}
