package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

// Of several kinds of streams as many of each send as are declared, at their rates, one kind after the other.
func TestStreamsOfSeveralKinds(t *testing.T) {
	kinds := []pipelines.Stream{{Kind: "fast", Rate: 20, Count: 2, Jitter: 10 * time.Millisecond}, {Kind: "slow", Rate: 2, Count: 5, Phases: pipelines.PhasesChosen}}
	end := 100 * time.Second
	s := arrivals.Process{Kind: arrivals.Frames, Frames: kinds}.Stream(50, end, RandomSource(1, ForArrivals, 0))
	assert.Equal(t, kinds, s.Kinds())
	require.Equal(t, 7, s.Streams())
	count := make([]int, 7)
	for at := s.Next(); at < end; at = s.Next() {
		count[s.From()]++
	}
	for i, want := range []int{2000, 2000, 200, 200, 200, 200, 200} {
		assert.InEpsilon(t, want, count[i], 0.02, i)
	}
	half := arrivals.Process{Kind: arrivals.Frames, Frames: kinds}.Stream(25, end, RandomSource(1, ForArrivals, 0))
	assert.Equal(t, []int{1, 3}, []int{half.Kinds()[0].Count, half.Kinds()[1].Count})

	r := resultOf("", []streamTally{{10, 10}, {10, 5}, {10, 8}})
	r.Kinds = []StreamResult{resultOf("fast", []streamTally{{10, 10}}), resultOf("slow", []streamTally{{10, 5}, {10, 8}})}
	assert.Equal(t, "3 streams: of the worst 50 % in time, of the median 80 %\n1 fast stream: of the worst 100 % in time, of the median 100 %\n2 slow streams: of the worst 50 % in time, of the median 50 %\n", r.Describe())
	assert.Equal(t, StreamResult{Kind: "none", Worst: 1, Median: 1}, resultOf("none", nil))
}
