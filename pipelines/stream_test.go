package pipelines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStreamsOfAPipeline(t *testing.T) {
	p := Pipeline{Rate: 400, Stream: Stream{Rate: 10, Count: 40}}
	assert.Equal(t, 40, p.Streams())
	for measured, want := range map[float64]float64{0: 400, 90: 400, 400: 400, 401: 410, 455: 460} {
		assert.InDelta(t, want, p.RateFor(measured), 1e-9, "%v", measured)
	}
	assert.False(t, p.ComeSingly())
	p.Stream.Phases = PhasesChosen
	assert.True(t, p.ComeSingly())
	p.Stream.Jitter = time.Millisecond
	assert.False(t, p.ComeSingly())
	one := Pipeline{Rate: 10, Stream: Stream{Rate: 10, Count: 1}}
	assert.True(t, one.ComeSingly())
	none := Pipeline{Rate: 7}
	assert.Zero(t, none.Streams())
	assert.True(t, none.ComeSingly())
	assert.InDelta(t, 5, none.RateFor(5), 0)
}

// Erlang's loss formula, by its printed tables: traffic that so many lines carry with a loss of 1 %.
func TestStreamsByErlang(t *testing.T) {
	for lines, traffic := range map[int]float64{1: 0.0101, 2: 0.153, 5: 1.36, 10: 4.46, 20: 12.0, 50: 37.9, 100: 84.1} {
		s := Stream{Rate: 10, Opening: traffic * 0.995, Length: time.Second}
		assert.Equal(t, lines, s.Sized().Count, "%v", traffic)
		s.Opening = traffic * 1.01
		assert.Equal(t, lines+1, s.Sized().Count, "%v", traffic)
		assert.Empty(t, s.Sized().Faults())
	}
	assert.Equal(t, 7, Stream{Rate: 10, Count: 7}.Sized().Count)
	assert.NotEmpty(t, Stream{Rate: 10, Opening: -1, Length: time.Second}.Sized().Faults())
}
