package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/functions"
)

func TestMeasuresOfSeveralGatewaysAddUp(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := Measures{
		Pipeline: "p", Gateway: "a", Generation: 3, From: at, To: at.Add(10 * time.Second), Offered: 30, Arrived: 300, Completed: 290, Late: 10,
		Attainment: 290. / 300, Latency: Percentiles{P50: 10, P99: 20, Max: 30},
		Modules: []ModuleMeasures{{
			Name: "m", Rate: 30, Requests: 300, Batches: 100, MeanBatch: 3, Drops: map[string]int64{DropLate: 1},
			Sizes:     []SizeCount{{1, 10}, {4, 90}},
			Durations: []BatchDuration{{"cpu", 4, 30, 100, 120, 0}},
			Executors: []ExecutorMeasures{{"e", 100, 300, 0.5}},
		}},
		Function: &functions.Measures{Applications: []functions.ApplicationMeasures{{Name: "x", Offered: 1, Requests: 10}}},
	}
	b := Measures{
		Pipeline: "p", Gateway: "b", Generation: 3, From: at.Add(2 * time.Second), To: at.Add(12 * time.Second), Offered: 10, Arrived: 100, Completed: 90, Dropped: 10,
		Attainment: 0.9, Latency: Percentiles{P50: 30, P99: 90, Max: 91},
		Modules: []ModuleMeasures{{
			Name: "m", Rate: 10, Requests: 100, Batches: 100, MeanBatch: 1, Drops: map[string]int64{DropLate: 2, DropFull: 8},
			Sizes:     []SizeCount{{1, 100}},
			Durations: []BatchDuration{{"cpu", 1, 30, 50, 60, 0}, {"cpu", 4, 10, 140, 150, 0}},
			Executors: []ExecutorMeasures{{"e", 100, 100, 0.25}, {"f", 0, 0, 0}},
		}, {Name: "n", Rate: 1}},
		Function: &functions.Measures{Applications: []functions.ApplicationMeasures{{Name: "x", Offered: 2, Requests: 20}}},
	}
	first := MergeMeasures(a)
	assert.Equal(t, a, first, "of one is that one")
	got := MergeMeasures(a, b)
	assert.Equal(t, MergeMeasures(a), first, "and stays so")
	assert.Equal(t, 40., got.Offered)
	assert.EqualValues(t, 400, got.Arrived)
	assert.EqualValues(t, 400, got.Outcomes())
	assert.InDelta(t, 380./400, got.Attainment, 1e-9)
	assert.Equal(t, 12*time.Second, got.Span())
	assert.Equal(t, Percentiles{P50: 14, P99: 90, Max: 91}, got.Latency)
	m := got.Module("m")
	assert.Equal(t, 40., m.Rate)
	assert.InDelta(t, 2, m.MeanBatch, 1e-9)
	assert.Equal(t, map[string]int64{DropLate: 3, DropFull: 8}, m.Drops)
	assert.Equal(t, []SizeCount{{1, 110}, {4, 90}}, m.Sizes)
	assert.Equal(t, []BatchDuration{{"cpu", 1, 30, 50, 60, 0}, {"cpu", 4, 40, 110, 150, 0}}, m.Durations)
	assert.Equal(t, []ExecutorMeasures{{"e", 200, 400, 0.75}, {"f", 0, 0, 0}}, m.Executors)
	assert.NotNil(t, got.Module("n"))
	assert.Equal(t, 3., got.Function.Offered())
	assert.Equal(t, map[string]int64{DropLate: 1}, a.Modules[0].Drops, "what is added up is left as it is")
	assert.Equal(t, Measures{}, MergeMeasures())
}
