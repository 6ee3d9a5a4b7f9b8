package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a play of some thousand requests shows holds for those after them where batches fill or
// the schedules begin anew. Elsewhere one inter-arrival time is added, and a shared device, whose
// batches must be one period apart, makes no promise. Of 20,000 drawn pairs of groups this one
// passes its play without a proof.
func TestOnlyWhatIsProvenForEveryRequestCounts(t *testing.T) {
	const first, second = 43710 * time.Microsecond, 41408 * time.Microsecond
	pair := func(fill float64, deadline time.Duration) Module {
		groups := []Group{
			{Batch: 5, Rate: fill * 5 / first.Seconds(), Period: first, Duration: first, Deadline: deadline, Machines: 1},
			{Batch: 11, Rate: 11 / second.Seconds(), Period: second, Duration: second, Machines: 1},
		}
		m := Module{Rate: groups[0].Rate + groups[1].Rate, Groups: groups, Budget: time.Second}
		assert.True(t, m.prove())
		return m
	}
	partly := pair(0.9999852649925662, 0)
	gap, fluid := ToDuration(1/partly.Rate), partly.Proven
	assert.True(t, partly.widen())
	assert.Equal(t, fluid+gap, partly.Proven)

	shared := pair(0.9999852649925662, first)
	assert.False(t, shared.widen())

	full := pair(1, 0)
	fluid = full.Proven
	assert.True(t, full.widen())
	assert.Equal(t, fluid, full.Proven)
}
