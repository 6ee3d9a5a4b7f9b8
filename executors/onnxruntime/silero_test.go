package onnxruntime

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/wire"
)

// detector is the variable that names a published voice detector.
const detector = "HARPAGON_SILERO_VAD"

// TestStateOfAPublishedVoiceDetector reports that the module keeps state, and nothing else: which tensors
// these are, and where their batch is, is found.
func TestStateOfAPublishedVoiceDetector(t *testing.T) {
	path := os.Getenv(detector)
	if path == "" {
		t.Skipf("set %s to silero_vad_v5.onnx of npm's @ricky0123/vad-web@0.0.31", detector)
	}
	m := pipelines.Module{Name: "vad", Model: path, State: true, Inputs: []pipelines.Binding{
		{Name: "input", From: build.FromInput("audio")}, {Name: "sr", Value: 16000.0},
	}}
	both(t, m, 3, func(t *testing.T, in executors.Instance) {
		sig := in.Signature()
		require.Len(t, sig.Inputs, 2)
		state := sig.Inputs[1]
		require.Equal(t, pipelines.Port{Name: "state", Datatype: "FP32", Shape: []int64{2, 128}, Loop: "stateN"}, state)
		require.Len(t, sig.Outputs, 2)
		chunk := func(caller, n int) wire.Tensor {
			sound := make([]float32, 512)
			for i := range sound {
				sound[i] = float32((caller+1)*((i*(n+3))%17)) / 40
			}
			return wire.FromFloat32(sound, 512)
		}
		fresh := wire.Zeros(state.Datatype, state.Shape)
		together, alone := []wire.Tensor{fresh, fresh, fresh}, []wire.Tensor{fresh, fresh, fresh}
		for n := range 5 {
			var items [][]wire.Tensor
			for c := range together {
				items = append(items, []wire.Tensor{chunk(c, n), together[c]})
			}
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			for c := range alone {
				one, err := in.Run(t.Context(), [][]wire.Tensor{{chunk(c, n), alone[c]}})
				require.NoError(t, err)
				want, err := one[0][0].Float32s()
				require.NoError(t, err)
				speech, err := got[c][0].Float32s()
				require.NoError(t, err)
				assert.InDelta(t, want[0], speech[0], 1e-4, "caller %d, chunk %d", c, n)
				together[c], alone[c] = got[c][1], one[0][1]
				require.NotEqual(t, fresh.Data, alone[c].Data)
			}
		}
	})
}

// TestAPublishedVoiceDetector runs Silero VAD as it is published, several streams
// in a batch, each with the state of its own.
func TestAPublishedVoiceDetector(t *testing.T) {
	path := os.Getenv(detector)
	if path == "" {
		t.Skipf("set %s to silero_vad_v5.onnx of npm's @ricky0123/vad-web@0.0.31", detector)
	}
	m := pipelines.Module{Name: "vad", Model: path, BatchAxis: map[string]int{"state": 1, "stateN": 1}, Inputs: []pipelines.Binding{
		{Name: "input", From: build.FromInput("audio")}, {Name: "state", From: build.FromInput("state")}, {Name: "sr", Value: 16000.0},
	}}
	both(t, m, 3, func(t *testing.T, in executors.Instance) {
		silence := func() []wire.Tensor {
			return []wire.Tensor{wire.FromFloat32(make([]float32, 512), 512), wire.FromFloat32(make([]float32, 256), 2, 128)}
		}
		got, err := in.Run(t.Context(), [][]wire.Tensor{silence(), silence(), silence()})
		require.NoError(t, err)
		alone, err := in.Run(t.Context(), [][]wire.Tensor{silence()})
		require.NoError(t, err)
		for i := range got {
			speech, err := got[i][0].Float32s()
			require.NoError(t, err)
			require.Len(t, speech, 1)
			assert.Less(t, speech[0], float32(0.1), "silence is no speech")
			single, err := alone[0][0].Float32s()
			require.NoError(t, err)
			assert.InDelta(t, single[0], speech[0], 1e-5)
			assert.Equal(t, []int64{2, 128}, got[i][1].Shape)
		}
	})
}
