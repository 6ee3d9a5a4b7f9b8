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
