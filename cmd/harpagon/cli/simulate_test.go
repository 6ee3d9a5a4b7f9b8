package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSimulate(t *testing.T) {
	dir := smallFolder(t, "400ms")
	got := run(t, "simulate", dir, "--duration", "10s", "--arrivals", "poisson")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	golden(t, "simulate.txt", got.stdout)
	assert.Equal(t, got, run(t, "simulate", dir, "--duration", "10s", "--arrivals", "poisson"), "the same seed")

	got = run(t, "simulate", dir, "--json", "--duration", "10s", "--devices", "v100=2", "--dispatch", "deferred", "--find-goodput", "--tolerance", "0.05")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	var out struct{ Simulations []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Simulations, 1)
	one := out.Simulations[0]
	for _, field := range []string{
		"pipeline", "dispatch", "arrivals", "seed", "offered_rate", "requests", "completed", "late", "dropped", "refused", "attainment",
		"goodput_rate", "mean_batch", "utilisation", "latency_ms", "devices",
	} {
		assert.Contains(t, one, field)
	}
	assert.EqualValues(t, 2, one["devices"])
	assert.Equal(t, one["requests"], one["completed"].(float64)+one["late"].(float64)+one["dropped"].(float64)+one["refused"].(float64))
	assert.Greater(t, one["goodput_rate"], 10.0)
}

// TestSimulateTakesItsOldFlag: --pool still does what --devices does, and reports what it is called.
func TestSimulateTakesItsOldFlag(t *testing.T) {
	dir := smallFolder(t, "400ms")
	want := run(t, "simulate", dir, "--duration", "2s", "--devices", "v100=2")
	got := run(t, "simulate", dir, "--duration", "2s", "--pool", "v100=2")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Equal(t, want.stdout, got.stdout)
	assert.Contains(t, got.stderr, "--pool is deprecated and goes with the next version; it is called --devices now")
	assert.NotContains(t, run(t, "simulate", "--help").stdout, "--pool")
}

// TestSimulateKeepsAPlan: every even request of a plan is in time.
func TestSimulateKeepsAPlan(t *testing.T) {
	got := run(t, "simulate", smallFolder(t, "120ms"), "--json", "--dispatch", "tc", "--arrivals", "even", "--duration", "20s")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out struct {
		Simulations []struct{ Requests, Completed int }
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	assert.NotZero(t, out.Simulations[0].Requests)
	assert.Equal(t, out.Simulations[0].Requests, out.Simulations[0].Completed)
}

func TestSimulatePictures(t *testing.T) {
	dir := smallFolder(t, "400ms")
	picture, events := filepath.Join(dir, "batches.svg"), filepath.Join(dir, "events.json")
	got := run(t, "simulate", dir, "--duration", "5s", "--plot", picture, "--trace-events", events)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, read(t, picture), "vehicle")
	var trace struct{ TraceEvents []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(read(t, events)), &trace))
	assert.Greater(t, len(trace.TraceEvents), 10)
}

func TestSimulateTraces(t *testing.T) {
	dir := smallFolder(t, "400ms")
	trace := filepath.Join(dir, "counts.csv")
	require.NoError(t, os.WriteFile(trace, []byte("0,5\n3,7\n"), 0o644))
	got := run(t, "simulate", dir, "--arrivals", "trace:"+trace)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "small: 12 requests at 3/s")
	require.NoError(t, os.WriteFile(trace, []byte("1.5\n2.5\n2\n"), 0o644))
	got = run(t, "simulate", dir, "--arrivals", "replay:"+trace)
	assert.Equal(t, ExitError, got.code, got.stdout)
	assert.Contains(t, got.stderr, "counts.csv line 3")
	got = run(t, "simulate", dir, "--rate", "0")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "small: 0 requests")
}

func TestSimulateSaysWhatIsWrong(t *testing.T) {
	dir := smallFolder(t, "400ms")
	for args, want := range map[string]string{
		"--arrivals often":               "replay:FILE",
		"--arrivals trace:nowhere.csv":   "no such file",
		"--devices v100":                 "write HARDWARE=N",
		"--devices v100=99999999":        "memory is kept for",
		"--devices h200=2":               `module "detect" of pipeline "small" has no profile on "h200"`,
		"--devices v100=2 --dispatch tc": "tc cuts batches for the groups of a plan",
		"--dispatch matching":            "have no sizes",
		"--dispatch best":                "there is no dispatch policy",
		"--lose 1":                       "write DEVICE@FROM-TO",
		"--lose 99@1s-2s":                "no device 99",
		"--plot batches.txt":             "is no picture",
		"--duration 0s":                  "above zero",
		"--rate -1":                      "zero or more",
		"--seeds 0":                      "at least one seed",
	} {
		got := run(t, append([]string{"simulate", dir}, strings.Fields(args)...)...)
		assert.Equal(t, ExitError, got.code, args)
		assert.Contains(t, got.stderr, want, args)
		assert.Empty(t, got.stdout, args)
	}
	got := run(t, "simulate", smallFolder(t, "9ms"), "--json")
	assert.Equal(t, ExitError, got.code, got.stdout)
	assert.Contains(t, got.stdout, `"infeasible"`)
}

// TestSimulateANetwork: delays may be random; the JSON of a constant one is what it was,
// and errors of a file of percentiles name the line.
func TestSimulateANetwork(t *testing.T) {
	dir := smallFolder(t, "400ms")
	median := func(delay string) float64 {
		got := run(t, "simulate", dir, "--devices", "v100=4", "--duration", "10s", "--delay-control", delay, "--delay-data", "100us", "--json")
		require.Equal(t, ExitOK, got.code, got.stderr)
		var out struct {
			Simulations []struct {
				Latency struct{ P50 float64 } `json:"latency_ms"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		return out.Simulations[0].Latency.P50
	}
	file := filepath.Join(folder(t, map[string]string{"net.csv": "percent,ms\n50,10\n99,20\n"}), "net.csv")
	none := median("0s")
	for _, delay := range []string{"10ms", "uniform:5ms,15ms", "lognormal:10ms,0.3", "percentiles:" + file} {
		assert.Greater(t, median(delay), none+5, delay)
	}
	got := run(t, "simulate", dir, "--delay-control", "soon")
	assert.Equal(t, ExitError, got.code, got.stdout)
	assert.Contains(t, got.stderr, "--delay-control soon: write a time such as 1ms")
	require.NoError(t, os.WriteFile(file, []byte("50,10\n99,5\n"), 0o644))
	got = run(t, "simulate", dir, "--delay-data", "percentiles:"+file)
	assert.Equal(t, ExitError, got.code, got.stdout)
	assert.Contains(t, got.stderr, "net.csv line 2, column 4")
}
