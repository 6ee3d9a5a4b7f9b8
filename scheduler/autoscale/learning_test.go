package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// ran are measures of a pool at some second.
func ran(second int, runs ...BatchDuration) Measures {
	to := time.Unix(int64(second), 0)
	return Measures{From: to.Add(-10 * time.Second), To: to, Modules: []ModuleMeasures{{Name: pipelines.PoolModule, Durations: runs}}}
}

func TestWhatQueriesTakeIsLearned(t *testing.T) {
	const ms = time.Millisecond
	gpu := func(size int, n int64, took time.Duration) BatchDuration {
		return BatchDuration{"gpu", size, n, took, took + ms, 0}
	}
	cpu := func(size int, n int64, took time.Duration) BatchDuration {
		return BatchDuration{"cpu", size, n, took, took, 0}
	}
	kinds := []string{"gpu", "cpu"}
	var l Learning
	assert.Empty(t, l.Observe(Measures{}, "gpu", kinds, 100))
	assert.Empty(t, l.Observe(ran(5), "gpu", kinds, 100), "no measures were requested")
	assert.True(t, l.Since.IsZero())
	assert.Empty(t, l.Observe(ran(10, gpu(10, 15, 20*ms)), "gpu", kinds, 100))
	assert.Empty(t, l.Observe(ran(15, gpu(10, 15, 20*ms), gpu(20, 9, 30*ms)), "gpu", kinds, 100), "nothing is known of the cpu")

	all := l
	points := all.Observe(ran(20, cpu(10, 30, 50*ms)), "gpu", kinds, 100)
	require.NotEmpty(t, points, "what was seen before counts")
	p := pipelines.Profile{Points: points}
	assert.Equal(t, 110*ms, p.Latency("gpu").At(100), "the line goes on")
	assert.Equal(t, 500*ms, p.Latency("cpu").At(100), "in proportion to the one size")
	assert.Equal(t, "learned what queries take, from 30 on cpu and 24 on gpu", all.Describe(pipelines.IsotonicPoints(points)))
	assert.Empty(t, all.Observe(ran(25, cpu(10, 40, 50*ms)), "gpu", kinds, 100), "one plan at a time")
	assert.NotEmpty(t, all.Observe(ran(45, cpu(10, 40, 50*ms)), "gpu", kinds, 100), "the plan was not possible")

	points = l.Observe(ran(41, gpu(10, 15, 20*ms)), "gpu", kinds, 100)
	require.NotEmpty(t, points, "30 s are enough to wait for the cpu")
	assert.Empty(t, pipelines.Profile{Points: points}.Latency("cpu"))

	l = Learning{}
	assert.Empty(t, l.Observe(ran(10, cpu(10, 30, 50*ms)), "gpu", kinds, 100))
	assert.Empty(t, l.Observe(ran(60, cpu(10, 30, 50*ms)), "gpu", kinds, 100), "without the base there is no pool")
}
