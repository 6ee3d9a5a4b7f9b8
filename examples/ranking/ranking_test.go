//go:build !noserver

package main

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/wire"
)

// asCommand makes the test program the command of a pool.
const asCommand = "serve-ranking"

func TestMain(m *testing.M) {
	local.ChildMain() // networks run in child processes, which are this program
	if len(os.Args) > 1 && os.Args[1] == asCommand {
		serveAsCommand()
	}
	m.Run()
}

// Queries of every size are answered by the pool as by the network itself, row by row.
func TestThePoolAnswersAsTheNetworkDoes(t *testing.T) {
	s, err := local.Start(t.Context(), local.Options{Files: []string{"."}, Vars: map[string]string{"slo": "5s"}, StateDir: t.TempDir(), Environ: []string{}, Cores: 2, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Len(t, s.Services, 1)
	plan := s.Services[0].Plan.Pool
	require.NotNil(t, plan)
	assert.Equal(t, map[string]int{"on-demand": 1, "spot": 1}, plan.Instances)
	assert.Positive(t, plan.Goodput)

	alone, err := open(t.Context(), "alone", 1)
	require.NoError(t, err)
	defer alone.net.Close()
	client, err := sdk.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	defer client.Close()
	for _, size := range []int{1, 7, 150, 640} {
		compare(t, client, alone, "ranking", size)
	}
	_, err = client.Infer(t.Context(), "ranking", sdk.Inputs{"wide": sdk.Float32(make([]float32, 1001*wide), 1001, wide), "dense": sdk.Float32(make([]float32, 1001*dense), 1001, dense)})
	assert.ErrorIs(t, err, sdk.ErrInvalid)
	assert.ErrorContains(t, err, "beyond the profile")
}

// compare has a pool predict clicks on made-up items, and the network for each of them
// alone.
func compare(t *testing.T, client *sdk.Client, alone *direct, pool string, size int) (answer *sdk.Result) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	w, d := make([]float32, size*wide), make([]float32, size*dense)
	for i := range w {
		w[i] = float32(rng.IntN(2))
	}
	for i := range d {
		d[i] = float32(rng.NormFloat64())
	}
	inputs := sdk.Inputs{"wide": sdk.Float32(w, int64(size), wide), "dense": sdk.Float32(d, int64(size), dense)}
	require.Eventually(t, func() (answered bool) { // a busy machine may be late
		var err error
		answer, err = client.Infer(t.Context(), pool, inputs)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	got, err := answer.Tensor("click")
	require.NoError(t, err)
	require.Equal(t, []int64{int64(size), 1}, got.Shape)
	clicks, err := got.Float32s()
	require.NoError(t, err)
	for i := range size {
		own, err := alone.clicks(t.Context(), [][]wire.Tensor{{
			wire.FromFloat32(w[i*wide : (i+1)*wide]), wire.FromFloat32(d[i*dense : (i+1)*dense]),
		}})
		require.NoError(t, err)
		want, err := own[0].Float32s()
		require.NoError(t, err)
		require.InDelta(t, want[0], clicks[i], 1e-5, "item %d of a query of %d", i, size)
	}
	return answer
}

// What the training learns is more than a guess.
func TestTheNetworkLearns(t *testing.T) {
	_, little := train(1000)
	_, loss := train(10_000)
	assert.Less(t, loss, little)
	assert.Less(t, loss, 0.6, "a guess has 0.69")
}
