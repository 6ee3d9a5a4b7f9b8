package statistics

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

func TestCollector(t *testing.T) {
	c := New()
	assert.Equal(t, Pipeline{}, c.Of("p"))
	o := c.Observer()
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Generation: 2, Outcome: gateway.Late, Elapsed: 10, Stages: []wire.Stage{
		{Critical: true, Queue: 1, Wait: 2, Compute: 4}, {Queue: 100, Compute: 100}, {Critical: true, Compute: 3},
	}})
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Generation: 3, Outcome: gateway.Dropped, Elapsed: 5})
	o.RequestEnd(gateway.RequestInfo{Pipeline: "unknown", Outcome: gateway.Refused})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Size: 4, Compute: 4})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Size: 1, Compute: 3})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Size: 4, Compute: 6})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Size: 4, Err: &wire.Error{}})
	p := c.Of("p")
	assert.False(t, p.Last.IsZero())
	assert.Equal(t, 3, p.Generation)
	assert.Equal(t, Duration{1, 10}, p.Success)
	assert.Equal(t, Duration{1, 5}, p.Fail)
	assert.Equal(t, Duration{1, 3}, p.Queue)
	assert.Equal(t, Duration{1, 7}, p.Compute)
	assert.EqualValues(t, 3, p.Executed)
	assert.Equal(t, []Batches{{1, Duration{1, 3}}, {4, Duration{2, 10}}}, p.Batches)
	assert.Equal(t, Pipeline{}, c.Of("unknown"))
}
