package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// line is a device that computes batches of up to four, 5 ms for each of them, of a service
// with an objective of 300 ms.
type line struct {
	c       Controller
	n       int
	waiting []Time // when they came
	refused int
	ends    Time
	running []Time
	idle    Time
	longest Time // that a request waited for its answer
}

func newLine() *line {
	l := &line{}
	l.n = l.c.Add(single(300 * ms))
	return l
}

// step has the device work, and so many requests come.
func (l *line) step(now Time, come int) {
	if now >= l.ends && len(l.running) > 0 {
		l.c.Returned(l.n, 0, len(l.running), l.ends-Time(len(l.running))*5*ms)
		for _, came := range l.running {
			l.longest = max(l.longest, now-came)
			l.c.Leave(now, l.n, came+300*ms, InTime)
		}
		l.running = nil
	}
	for range come {
		if !l.c.Admit(now, l.n, now+300*ms) {
			l.refused++
			continue
		}
		l.c.enter(l.n, 0)
		l.waiting = append(l.waiting, now)
	}
	if len(l.running) > 0 {
		return
	}
	k := min(4, len(l.waiting))
	if k == 0 {
		l.idle += ms
		return
	}
	l.running, l.waiting = l.waiting[:k:k], l.waiting[k:]
	l.ends = now + Time(k)*5*ms
	l.c.Start(now, l.n, 0, 0, k)
}

// A queue that stands is shortened to what keeps batches full: requests wait for a fraction of
// what they may, and the device is busy all the same.
func TestAQueueThatStandsIsShortened(t *testing.T) {
	l := newLine()
	for now := Time(0); now < 20000*ms; now += ms {
		if now == 10000*ms {
			assert.Greater(t, l.longest, 100*ms, "while it was not known that it stands")
			l.longest, l.idle = 0, 0
		}
		come := 0
		if now%(4*ms) == 0 { // 250/s, where 200 can be done
			come = 1
		}
		l.step(now, come)
	}
	assert.Less(t, l.longest, 110*ms)
	assert.Zero(t, l.idle)
	assert.Positive(t, l.c.services[0].standing.short)
}

// Bursts of a load that can be done find all the room that an objective leaves.
func TestAQueueThatEmptiesIsNotShortened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine()
		every := Time(rapid.IntRange(200, 2000).Draw(t, "every"))
		part := rapid.Float64Range(0.1, 0.9).Draw(t, "part") // of what the device does
		for now := Time(0); now < 20000*ms; now += ms {
			come := 0
			if (now/ms)%every == 0 {
				come = int(part * float64(every) / 5)
			}
			l.step(now, min(come, 50))
			assert.Zero(t, l.c.services[0].standing.short)
		}
		assert.Zero(t, l.refused)
	})
}
