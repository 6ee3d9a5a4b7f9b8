package content

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func TestDigestFollowsWhatIsComputed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	write := func(s string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
	digest := func(m pipelines.Module) string {
		d, err := Digest(m)
		require.NoError(t, err)
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", d)
		return d
	}
	write("one")
	one := digest(pipelines.Module{Name: "a", Model: path})
	require.Equal(t, one, digest(pipelines.Module{Name: "b", Model: path, Fanout: 2}))
	write("two")
	require.NotEqual(t, one, digest(pipelines.Module{Name: "a", Model: path}))

	f := func(name string, p map[string]any) string {
		return digest(pipelines.Module{Function: name, Parameters: p})
	}
	require.Equal(t, f("crop", map[string]any{"a": 1.0, "b": 2.0}), f("crop", map[string]any{"b": 2.0, "a": 1.0}))
	require.Equal(t, f("crop", nil), f("crop", map[string]any{}))
	require.NotEqual(t, f("crop", map[string]any{"a": 1.0}), f("crop", map[string]any{"a": 2.0}))
	require.NotEqual(t, f("crop", nil), f("resize", nil))

	profile := func(d int) string {
		return digest(pipelines.Module{Profile: pipelines.Profile{Points: []pipelines.Point{{Batch: d}}}})
	}
	require.NotEqual(t, profile(1), profile(2))

	state := func(loops map[string]string) string {
		return digest(pipelines.Module{Model: path, State: true, Loops: loops})
	}
	require.NotEqual(t, state(nil), state(map[string]string{"h": "next"}))
	require.NotEqual(t, state(map[string]string{"h": "other"}), state(map[string]string{"h": "next"}))
}

func TestDigestErrors(t *testing.T) {
	_, err := Digest(pipelines.Module{Name: "m", Model: "/does/not/exist"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, `content: module "m": reading its model`)
	_, err = Digest(pipelines.Module{Name: "m", Function: "f", Parameters: map[string]any{"x": math.NaN()}})
	require.ErrorContains(t, err, "NaN")
}
