package console

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/autoscale"
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
		{What: "frames within the rate in time, of the worst stream", Planned: "99 %", Measured: `90 %, "camera 7"; of the median 100 %`, Broken: true},
	}, all[none:])
}

// The streams that attain least are listed, each with what it attained lately.
func TestStreamsAreListed(t *testing.T) {
	o := new(source).options()
	o.Source.Measures = func() []autoscale.Measures {
		m := measured()
		m.Streams = &admission.StreamShares{Open: 60, Most: 60, Worst: 0.9, WorstName: "<camera>", Median: 1}
		return []autoscale.Measures{m}
	}
	o.Source.Streams = func(name string, most int) []admission.StreamLine {
		assert.Equal(t, "traffic", name)
		return append(slices.Repeat([]admission.StreamLine{{Name: "<camera>", Attainment: 0.9, Recent: []float64{1, 0.5, 1}}}, most-1), admission.StreamLine{Name: "fast", Attainment: 1, TooFast: 3})
	}
	body := get(New(t.Context(), o), "/console/services/traffic").Body.String()
	assert.Equal(t, mostStreams-1, strings.Count(body, `<li class="broken"><span class="name" title="&lt;camera&gt;">&lt;camera&gt;</span> <span class="n">90 %</span> <svg class="spark"`))
	assert.Contains(t, body, `<span class="quiet">and 3 frames dropped that came faster than planned</span></li>`)
	assert.Equal(t, 1, strings.Count(body, "faster than planned"))
	assert.Contains(t, body, "and 10 more, of which each attains no less")
}
