package gateway

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
)

// trying serves pipeline p on one set of workers, and its next generation on another, on a
// clock of its own, with requests every so often; then it gives what came of each.
func trying(t *testing.T, u pipelines.Update, next spec, requests int, then func(g *Gateway, answers []*wire.InferResponse, errs []*wire.Error)) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": {kind: addOne, duration: 20 * ms}}
		g, workers := serve(t, Options{}, deployment(single(100*ms), 1, specs), specs)
		defer func() {
			stop(g, workers)
			time.Sleep(time.Minute)
		}()
		require.Error(t, g.Try("p", u), "its canary is not installed")
		two := single(100 * ms)
		two.Name = rollout.Name("p")
		others := map[string]spec{"m": next}
		d := deployment(two, 2, others)
		tried := start(g, d, others)
		for name, w := range tried {
			workers[name] = w
		}
		require.NoError(t, g.Prepare(t.Context(), d))
		require.NoError(t, g.Install(t.Context(), d))
		require.NoError(t, g.Try("p", u))
		require.NoError(t, g.Try("p", u), "once more")
		require.Equal(t, []string{"p"}, g.Services(), "a canary is no service")

		answers, errs := make([]*wire.InferResponse, requests), make([]*wire.Error, requests)
		var group sync.WaitGroup
		for i := range requests {
			at(g, time.Duration(i)*25*ms, &group, func(r *wire.InferResponse, err *wire.Error) { answers[i], errs[i] = r, err })
		}
		group.Wait()
		time.Sleep(time.Second) // shadows
		then(g, answers, errs)
		require.NoError(t, g.Try("p", pipelines.Update{}))
		require.Nil(t, g.Measures("p").Canary)
		require.Empty(t, g.Trials())
		require.NoError(t, g.Remove(context.Background(), two.Name, placement.Age{}))
		r, err := ask(context.Background(), g)
		require.Nil(t, err)
		require.Equal(t, 1, r.Generation)
	})
}

// A next generation that cannot keep the objective gets its share and nothing of the
// others': none of those that the old one answers is late, dropped or slower than alone,
// and what was seen of the new one takes it back.
func TestSlowCanaryCostsOnlyItsShare(t *testing.T) {
	u := pipelines.Update{Canary: 0.25, Hold: time.Minute}
	slow := spec{kind: addOne, duration: 20 * ms}
	slow.kind.run = func(in []wire.Tensor) []wire.Tensor {
		time.Sleep(180 * ms) // beyond what it was planned with
		return addOne.run(in)
	}
	trying(t, u, slow, 200, func(g *Gateway, answers []*wire.InferResponse, errs []*wire.Error) {
		stable := 0
		for i := range answers {
			if rollout.Draw(int64(i+1), u) == rollout.Canary {
				continue
			}
			stable++
			require.Nil(t, errs[i], i)
			require.Equal(t, 1, answers[i].Generation)
			require.Equal(t, 20*ms, answers[i].Stages[0].Transfer, "as long as alone")
			require.Zero(t, answers[i].Stages[0].Queue)
		}
		tried := g.Measures("p").Tried
		require.Len(t, tried, 1)
		require.Equal(t, int64(50), tried[0].Requests, "of the new generation alone")
		require.Equal(t, 200*ms, tried[0].Transfers[0].P50, "what its batches took")
		seen := g.Measures("p").Canary
		require.Equal(t, rollout.Tally{Requests: int64(stable), InTime: int64(stable)}, seen.Stable)
		require.Equal(t, int64(50), seen.Canary.Requests, "each has one outcome")
		require.Zero(t, seen.Canary.InTime)
		require.Equal(t, map[string]rollout.Seen{"p": *seen}, g.Trials())
		require.Equal(t, rollout.Revert, rollout.Decide(u, 5*time.Second, *seen, rollout.Cost{}).Verdict)
	})
}

func TestGoodCanaryAnswersItsShare(t *testing.T) {
	u := pipelines.Update{Canary: 0.1}
	trying(t, u, spec{kind: addOne, duration: 20 * ms}, 100, func(g *Gateway, answers []*wire.InferResponse, errs []*wire.Error) {
		of := map[int]int{}
		for i := range answers {
			require.Nil(t, errs[i])
			require.Equal(t, "p", answers[i].Pipeline)
			of[answers[i].Generation]++
		}
		require.Equal(t, map[int]int{1: 90, 2: 10}, of)
		require.Equal(t, rollout.Promote, rollout.Decide(u, 10*time.Minute, *g.Measures("p").Canary, rollout.Cost{}).Verdict)
	})
}

// A shadow answers nobody, whatever it does, and what it answers is compared.
func TestShadowAnswersNobody(t *testing.T) {
	other := addOne
	other.run = func(in []wire.Tensor) []wire.Tensor {
		v := floats(in[0])
		return []wire.Tensor{wire.FromFloat32([]float32{v[0], v[1] + 1}, 2)}
	}
	for name, c := range map[string]struct {
		next      spec
		different int64
		inTime    int64
	}{
		"the same":   {spec{kind: addOne, duration: 20 * ms}, 0, 20},
		"another":    {spec{kind: other, duration: 20 * ms}, 20, 20},
		"not at all": {spec{kind: kind{sig: addOne.sig, run: func(in []wire.Tensor) []wire.Tensor { time.Sleep(10 * time.Second); return nil }}, duration: 20 * ms}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trying(t, pipelines.Update{Shadow: 0.2}, c.next, 100, func(g *Gateway, answers []*wire.InferResponse, errs []*wire.Error) {
				for i := range answers {
					require.Nil(t, errs[i])
					require.Equal(t, 1, answers[i].Generation)
				}
				seen := g.Measures("p").Canary
				require.Equal(t, rollout.Tally{Requests: 100, InTime: 100}, seen.Stable)
				require.Equal(t, c.different, seen.Different)
				require.Equal(t, c.inTime, seen.Canary.InTime)
			})
		})
	}
}
