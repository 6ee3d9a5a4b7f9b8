package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
	"github.com/harpagon/harpagon/pipelines/files"
)

func TestProfileFit(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("platform,size,batch,latency_ms\n")
	for _, c := range []float64{0.5, 1, 1.5, 2, 4} {
		ms := 1e3 * (2*math.Exp(-c/0.6) + 0.2)
		fmt.Fprintf(&b, "cpu,%v,1,%v\ncpu,%v,1,%v\n", c, ms*0.9, c, ms*1.1)
	}
	for _, batch := range []int{1, 8, 16} {
		fmt.Fprintf(&b, "gpu,24,%d,%v\n", batch, 2+1.5*float64(batch))
	}
	calls, out := filepath.Join(dir, "calls.csv"), filepath.Join(dir, "model.json")
	require.NoError(t, os.WriteFile(calls, []byte(b.String()), 0o600))

	got := run(t, "profile", "--fit", calls, "--out", out)
	require.Equal(t, command.ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "cpu, batch 1, maximum")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	p, diags := files.ReadFunctionProfile(out, text)
	require.False(t, diags.HasErrors(), "%v", diags)
	assert.InEpsilon(t, 0.6, p.CPU[0].Avg.Beta, 1e-3)
	assert.InEpsilon(t, 2.2, p.CPU[0].Max.Alpha, 1e-3)
	assert.InEpsilon(t, 0.0015, p.GPU.Xi1, 1e-6)
	assert.Equal(t, 24.0, p.GPU.WholeGB)

	got = run(t, "profile", "--fit", calls)
	assert.Equal(t, string(text), got.stdout)
}

func TestProfileFitRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "begins with the columns platform,size,batch,latency_ms",
		"platform,size,batch\n": "calls.csv:1: column latency_ms is missing",
		"platform,size,batch,latency_ms\ncpu,1,1,fast\n": `calls.csv:2:9: "fast" in column latency_ms is not a number`,
		"platform,size,batch,latency_ms\ncpu,1,1,5\n":    "a curve needs three",
	} {
		calls := filepath.Join(t.TempDir(), "calls.csv")
		require.NoError(t, os.WriteFile(calls, []byte(text), 0o600))
		got := run(t, "profile", "--fit", calls)
		assert.Equal(t, command.ExitError, got.code)
		assert.Contains(t, got.stderr, want)
	}
	assert.Contains(t, run(t, "profile", "--fit", "none.csv").stderr, "cannot be read")
}
