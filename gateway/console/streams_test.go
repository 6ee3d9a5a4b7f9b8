package console

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/plan"
)

func TestStreamsBesideWhatWasPlanned(t *testing.T) {
	m := measured()
	none := len(promises(plan.Plan{}, m))
	m.Streams = &admission.StreamShares{Open: 3, Most: 4, Worst: 0.9, WorstName: "camera 7", Median: 1}
	all := promises(plan.Plan{}, m)
	assert.Equal(t, []promise{
		{What: "streams that are open", Planned: "4", Measured: "3"},
		{What: "frames in time, of the worst stream", Planned: "99 %", Measured: `90 %, "camera 7"; of the median 100 %`, Broken: true},
	}, all[none:])
}
