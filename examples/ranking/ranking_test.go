//go:build !noserver

package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/wire"
)

func TestMain(m *testing.M) {
	local.ChildMain() // networks run in child processes, which are this program
	m.Run()
}

// Queries of every size are answered by the pool as by the network itself, row by row.
func TestThePoolAnswersAsTheNetworkDoes(t *testing.T) {
	s, err := local.Start(t.Context(), local.Options{Files: []string{"."}, StateDir: t.TempDir(), Environ: []string{}, Cores: 2, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Len(t, s.Services, 1)
	plan := s.Services[0].Plan.Pool
	require.NotNil(t, plan)
	assert.Equal(t, map[string]int{"on-demand": 1, "spot": 1}, plan.Instances)
	assert.Positive(t, plan.Goodput)

	alone, err := gorgonia.New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "alone", Model: "ranking.onnx", Engine: "gorgonia"}, Batches: []int{1}, MaxBatch: 1})
	require.NoError(t, err)
	defer alone.Close()
	client, err := sdk.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	defer client.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 7, 150, 640} {
		w, d := make([]float32, size*wide), make([]float32, size*dense)
		for i := range w {
			w[i] = float32(rng.IntN(2))
		}
		for i := range d {
			d[i] = float32(rng.NormFloat64())
		}
		inputs := sdk.Inputs{"wide": sdk.Float32(w, int64(size), wide), "dense": sdk.Float32(d, int64(size), dense)}
		var answer *sdk.Result
		require.Eventually(t, func() bool { // a busy machine may be late
			answer, err = client.Infer(t.Context(), "ranking", inputs)
			return err == nil
		}, time.Minute, 50*time.Millisecond)
		got, err := answer.Tensor("click")
		require.NoError(t, err)
		require.Equal(t, []int64{int64(size), 1}, got.Shape)
		clicks, err := got.Float32s()
		require.NoError(t, err)
		for i := range size {
			own, err := alone.Run(t.Context(), [][]wire.Tensor{{
				wire.FromFloat32(w[i*wide : (i+1)*wide]), wire.FromFloat32(d[i*dense : (i+1)*dense]),
			}})
			require.NoError(t, err)
			want, err := own[0][0].Float32s()
			require.NoError(t, err)
			require.InDelta(t, want[0], clicks[i], 1e-5, "item %d of a query of %d", i, size)
		}
	}
	_, err = client.Infer(t.Context(), "ranking", sdk.Inputs{"wide": sdk.Float32(make([]float32, 1001*wide), 1001, wide), "dense": sdk.Float32(make([]float32, 1001*dense), 1001, dense)})
	assert.ErrorIs(t, err, sdk.ErrInvalid)
	assert.ErrorContains(t, err, "beyond the profile")
}

// What the training learns is more than a guess.
func TestTheNetworkLearns(t *testing.T) {
	_, little := train(1000)
	_, loss := train(10_000)
	assert.Less(t, loss, little)
	assert.Less(t, loss, 0.6, "a guess has 0.69")
}
