package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Where batches leave partly filled one inter-arrival time is added, and a shared device, whose
// batches must be one period apart, makes no promise. Full batches need it for requests that
// come late.
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
	for _, c := range []struct {
		fill        float64
		deadline    time.Duration
		tight       bool // the budget leaves nothing beyond the fluid
		sound, late bool
		margin      bool // is part of what is proven
	}{
		{fill: 0.99, sound: true, late: true, margin: true},
		{fill: 0.99, tight: true, margin: true},
		{fill: 0.99, deadline: first, margin: true},
		{fill: 1, sound: true, late: true},
		{fill: 1, tight: true, sound: true},
		{fill: 1, deadline: first, sound: true, late: true},
	} {
		m := pair(c.fill, c.deadline)
		fluid, gap := m.Proven, SingleMargin(m.Rate)
		if c.tight {
			m.Budget = fluid
		}
		sound, late := m.widen()
		assert.Equal(t, c.sound, sound, "%+v", c)
		assert.Equal(t, c.late, late, "%+v", c)
		assert.Equal(t, c.margin, m.Proven == fluid+gap, "%+v", c)
		if c.late {
			assert.GreaterOrEqual(t, m.Groups[0].Window, fluid+gap-first, "%+v", c)
		}
	}
}
