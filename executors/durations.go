package executors

import "time"

// Durations are how long batches of every size have lately taken: means over
// some tookWeight batches.
type Durations struct{ means []time.Duration }

const tookWeight = 4

// Learn takes in a batch of so many requests.
func (p *Durations) Learn(size int, took time.Duration) {
	for len(p.means) <= size {
		p.means = append(p.means, 0)
	}
	if p.means[size] == 0 {
		p.means[size] = took
		return
	}
	p.means[size] += (took - p.means[size]) / tookWeight
}

// Expect is how long the next of a size takes; 0 where nothing is known.
func (p *Durations) Expect(size int) time.Duration {
	if size >= len(p.means) {
		return 0
	}
	return p.means[size]
}

// The lead with which the end of a batch is told: a share of it, within bounds. On
// an idle machine the next one is there after half a millisecond, but where all
// cores are used every hand-over takes longer. What arrives in the meantime waits
// for the batch after the next, hence no more.
const (
	leadShare = 8
	leadLeast = 500 * time.Microsecond
	leadMost  = 5 * time.Millisecond
)

// lead is how long before its expected end the next batch is called for.
func lead(expected time.Duration) time.Duration {
	return min(max(expected/leadShare, leadLeast), leadMost, expected/2)
}
