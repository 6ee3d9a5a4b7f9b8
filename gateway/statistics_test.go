package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/wire"
)

func TestCollector(t *testing.T) {
	c := NewStatistics()
	assert.Equal(t, PipelineStatistics{}, c.Of("p"))
	o := c.Observer()
	o.RequestEnd(RequestInfo{Pipeline: "p", Generation: 2, Outcome: Late, Elapsed: 10, Stages: []wire.Stage{
		{Critical: true, Queue: 1, Wait: 2, Compute: 4}, {Queue: 100, Compute: 100}, {Critical: true, Compute: 3},
	}})
	o.RequestEnd(RequestInfo{Pipeline: "p", Generation: 3, Outcome: Dropped, Elapsed: 5})
	o.RequestEnd(RequestInfo{Pipeline: "unknown", Outcome: Refused})
	o.BatchEnd(BatchInfo{Pipeline: "p", Size: 4, Compute: 4})
	o.BatchEnd(BatchInfo{Pipeline: "p", Size: 1, Compute: 3})
	o.BatchEnd(BatchInfo{Pipeline: "p", Size: 4, Compute: 6})
	o.BatchEnd(BatchInfo{Pipeline: "p", Size: 4, Err: &wire.Error{}})
	p := c.Of("p")
	assert.False(t, p.Last.IsZero())
	assert.Equal(t, 3, p.Generation)
	assert.Equal(t, DurationStatistics{1, 10}, p.Success)
	assert.Equal(t, DurationStatistics{1, 5}, p.Fail)
	assert.Equal(t, DurationStatistics{1, 3}, p.Queue)
	assert.Equal(t, DurationStatistics{1, 7}, p.Compute)
	assert.EqualValues(t, 3, p.Executed)
	assert.Equal(t, []BatchStatistics{{1, DurationStatistics{1, 3}}, {4, DurationStatistics{2, 10}}}, p.Batches)
	assert.Equal(t, PipelineStatistics{}, c.Of("unknown"))
}
