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

func TestStreamsOfSeveralKinds(t *testing.T) {
	p := Pipeline{Kinds: []Stream{{Kind: "fast", Rate: 25, Count: 8, Jitter: 5 * time.Millisecond}, {Kind: "slow", Rate: 5, Count: 32}}}
	p.Rate = p.StreamsTotal()
	counts := func() (all []int) {
		for _, of := range p.Sending() {
			all = append(all, of.Count)
		}
		return all
	}
	assert.InDelta(t, 360, p.Rate, 0)
	assert.Equal(t, []int{8, 32}, counts())
	assert.False(t, p.ComeSingly())
	assert.Equal(t, 35*time.Millisecond, p.StreamsApart())
	for measured, want := range map[float64][]int{0: {8, 32}, 360: {8, 32}, 360.5: {8, 33}, 372: {9, 33}, 720: {16, 64}} {
		p.Rate = p.RateFor(measured)
		assert.Equal(t, want, counts(), "%v", measured)
		assert.GreaterOrEqual(t, p.Rate, measured)
		assert.InDelta(t, p.Rate, p.RateFor(p.Rate), 1e-9, "as many again")
	}
	p.Rate = 180
	assert.Equal(t, []int{4, 16}, counts(), "of half of the rate")
	p.Rate = p.StreamsTotal()
	chosen, changed := p.ChooseStreams()
	assert.True(t, changed)
	assert.True(t, chosen.Kinds[1].Chosen())
	assert.False(t, p.Kinds[1].Chosen())
	_, changed = chosen.ChooseStreams()
	assert.False(t, changed)
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
