package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// TestReplayPoolsAndFunctions: what is simulated of any kind can be decided again.
func TestReplayPoolsAndFunctions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.harprec")
	got := run(t, "simulate", examplePool, root+"/examples/functions", "--duration", "2s", "--record", file)
	require.Equal(t, ExitOK, got.code, got.stderr)
	got = run(t, "replay", file, "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out replayed
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	policies := map[string]string{}
	for _, s := range out.Stations {
		assert.True(t, s.Same, s.Station)
		assert.Positive(t, s.Batches, s.Station)
		policies[s.Station] = s.Policy
	}
	assert.Equal(t, map[string]string{"ranking": "matching", "vgg19": "grouped"}, policies)

	for _, policy := range pool.Dispatches() {
		got = run(t, "simulate", examplePool, "--policy", "homogeneous", "--duration", "2s", "--dispatch", policy, "--record", file)
		require.Equal(t, ExitOK, got.code, got.stderr)
		got = run(t, "replay", file, "--json")
		require.Equal(t, ExitOK, got.code, got.stderr)
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		assert.True(t, out.Same, policy)
		assert.Equal(t, policy, out.Stations[0].Policy)
	}
}

func TestReplay(t *testing.T) {
	dir := smallFolder(t, "400ms")
	file, picture := filepath.Join(dir, "run.harprec"), filepath.Join(dir, "batches.svg")
	got := run(t, "simulate", dir, "--duration", "5s", "--arrivals", "poisson", "--record", file)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "wrote "+file)

	got = run(t, "replay", file, "--plot", picture)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "/vehicle: ")
	assert.Contains(t, got.stdout, ": the same\n")
	assert.Contains(t, read(t, picture), "vehicle")

	got = run(t, "replay", file, "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out replayed
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	assert.True(t, out.Same)
	assert.Positive(t, out.Stations[0].Batches)

	got = run(t, "replay", file, "--station", "p/nobody")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "--station p/nobody is not in the recording; it has [")
}

// A policy made from other options decides otherwise.
func TestReplayFindsTheFirstDifference(t *testing.T) {
	dir := smallFolder(t, "400ms")
	file := filepath.Join(dir, "run.harprec")
	require.Equal(t, ExitOK, run(t, "simulate", dir, "--duration", "5s", "--arrivals", "poisson", "--record", file).code)
	r, err := recording.Parse([]byte(read(t, file)))
	require.NoError(t, err)
	for i := range r.Stations {
		for k := range r.Stations[i].Parts {
			r.Stations[i].Parts[k].Spec.TC.Groups[0].Duration *= 3
			r.Stations[i].Parts[k].Spec.TC.Groups[0].Durations = nil
		}
	}
	changed, err := r.Append(nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, changed, 0o600))
	got := run(t, "replay", file)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stdout, "differs at")
	assert.Contains(t, got.stdout, "recorded: ")
	assert.Contains(t, got.stdout, "the policy then:\ntc: ")
	got = run(t, "replay", file, "--json", "--plot", filepath.Join(dir, "batches.svg"))
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stdout, `"same": false`)
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.harprec")
	good, err := recording.Recording{Head: recording.Head{Program: "test"}}.Append(nil)
	require.NoError(t, err)
	write := func(b []byte) { require.NoError(t, os.WriteFile(file, b, 0o600)) }

	write(good)
	got := run(t, "replay", file)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "nothing was served")
	assert.Contains(t, run(t, "replay", file, "--plot", filepath.Join(dir, "x.svg")).stderr, "nothing to draw")
	assert.Contains(t, run(t, "replay", file, "--plot", "x.bmp").stderr, "--plot")
	assert.Contains(t, run(t, "replay", filepath.Join(dir, "none")).stderr, "cannot be read")

	write(good[:len(good)-1])
	assert.Contains(t, run(t, "replay", file).stderr, "cut off")
	write([]byte("hello"))
	assert.Contains(t, run(t, "replay", file).stderr, "no recording of harpagon")
	good[7] = 3
	write(good)
	assert.Contains(t, run(t, "replay", file).stderr, "version 3 of the format; this harpagon reads version 2")
	assert.Contains(t, run(t, "simulate", smallFolder(t, "400ms"), "--duration", "1s", "--record", "/no/such/folder/x").stderr, "the recording was not written")
}
