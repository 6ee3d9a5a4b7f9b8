package timing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/plan"
)

const ms = time.Millisecond

func TestPipelinesMayNameWhatCanServeThem(t *testing.T) {
	assert.Equal(t, pipelines.Dispatches(), Dispatches(), "a declaration and the dispatcher know the same policies")
	for _, name := range append(Dispatches(), "") {
		assert.NoError(t, Suits(name), name)
	}
	assert.ErrorContains(t, Suits("matching"), "Declare a pool block")
	assert.ErrorContains(t, Suits("grouped"), "declare a function block")
	assert.ErrorContains(t, Suits("fifo"), `no dispatch policy "fifo"`)
}

func TestEveryPolicyIsMade(t *testing.T) {
	groups := []dispatch.GroupOptions{
		{Batch: 4, Window: 20 * ms, Duration: 40 * ms, Period: 40 * ms},
		{Batch: 2, Window: 20 * ms, Duration: 30 * ms, Period: 40 * ms, Durations: []time.Duration{20 * ms, 30 * ms}},
	}
	for _, name := range Dispatches() {
		p, err := Dispatcher{Policy: name, Groups: groups, SLO: 100 * ms, Rate: 50}.New()
		require.NoError(t, err, name)
		assert.Equal(t, name, p.Name())
	}
	_, err := Dispatcher{Policy: "adaptive", Groups: groups, SLO: 25 * ms}.New()
	assert.ErrorContains(t, err, "longer than the SLO")
	_, err = Dispatcher{Policy: "adaptive", SLO: time.Second}.New()
	assert.ErrorContains(t, err, "give the durations")
	var got dispatch.PoolOptions
	_, err = Dispatcher{Policy: "eager", Groups: groups, SLO: 100 * ms, MaxQueue: 7, Pool: func(o dispatch.PoolOptions) (dispatch.Policy, error) {
		got = o
		return nil, nil
	}}.New()
	require.NoError(t, err)
	assert.Equal(t, 7, got.MaxQueue)
	assert.Equal(t, [][]time.Duration{{40 * ms, 40 * ms, 40 * ms, 40 * ms}, {20 * ms, 30 * ms}}, got.Models[0].Groups)
}

func TestWhatIsKeptForAModule(t *testing.T) {
	groups := []dispatch.GroupOptions{{Batch: 2, Duration: 30 * ms, Durations: []time.Duration{20 * ms, 30 * ms}}}
	m := &plan.Module{Budget: 55 * ms}
	assert.Equal(t, Kept{20 * ms, 55 * ms}, Keep("", m, groups))
	assert.Equal(t, Kept{20 * ms, 55 * ms}, Keep("tc", m, groups))
	assert.Equal(t, Kept{55 * ms, 55 * ms}, Keep("deferred", m, groups))
	assert.Equal(t, Kept{20 * ms, 20 * ms}, Keep("deferred", &plan.Module{}, groups))
	assert.Equal(t, Kept{20 * ms, 20 * ms}, Keep("deferred", nil, groups))
	assert.Equal(t, 20*ms, Keep("tc", m, groups).Under(0))
	assert.Equal(t, 37500*time.Microsecond, Keep("tc", m, groups).Under(0.5))
}

func TestEarlyStartsGoByThePromise(t *testing.T) {
	promised := &plan.Plan{Sound: true, Proof: plan.EveryRequest}
	even, random := &pipelines.Pipeline{}, &pipelines.Pipeline{Arrivals: "poisson"}
	assert.Equal(t, dispatch.EarlyWithinPromise, Early(true, even, promised))
	assert.Equal(t, dispatch.EarlyAlways, Early(true, random, promised))
	assert.Equal(t, dispatch.EarlyAlways, Early(true, even, &plan.Plan{Sound: true, Proof: plan.MeanRate}))
	assert.Equal(t, dispatch.EarlyAlways, Early(true, even, &plan.Plan{Proof: plan.EveryRequest}))
	assert.Equal(t, dispatch.EarlyNever, Early(false, random, promised))
}
