package simulate

import (
	"math"
	"time"
)

// Test ends a run as soon as it is certain whether every pipeline attains a share, for traffic
// that stays as it is. It looks when First has passed, and again whenever there is a third or a
// half more; the error that Confidence leaves is divided among the looks (Bonferroni). Requests
// of one run depend on each other: so it goes by what stretches of time attain, of which there
// are as many at every look (OverTime). The interval of a pipeline is then that of the last
// look: what it attains lies above its Low with Confidence, and so below its High. Whoever would
// rather be wrong about what fails than wait ends the run where that has Refuted at one look.
type Test struct {
	Share      float64
	Confidence float64
	Refuted    float64 // the confidence that a pipeline fails; Confidence when 0
	First      time.Duration
}

// test is a Test at work.
type test struct {
	Test
	passed Time // what it looks at next
	at     Time // when that is known; never where it looks no more
	error  float64
}

// begin sets the first look of a run.
func (e *engine) beginTest(t Test) {
	looks, all := 1.0, e.end-e.begin
	for passed := t.First; passed < all; passed = nextLook(t.First, passed) {
		looks++
	}
	e.test = test{Test: t, error: (1 - t.Confidence) / looks}
	for i := range e.loads {
		e.loads[i].tally.foldFrom(t.First)
	}
	e.awaitLook(min(t.First, all))
}

// nextLook is the look after that: they come at First, and at 1.5, 2, 3, 4, 6 and so on times that.
func nextLook(first, passed Time) Time {
	for 2*first <= passed {
		first *= 2
	}
	if passed < first+first/2 {
		return first + first/2
	}
	return 2 * first
}

// awaitLook looks once the outcome of all is known that came within that time.
func (e *engine) awaitLook(passed Time) {
	e.test.passed, e.test.at = passed, e.begin+passed
	for i := range e.loads {
		e.test.at = max(e.test.at, e.begin+passed+e.loads[i].slo)
	}
}

// look checks whether the verdict on every pipeline is certain; if so no more requests
// come.
func (e *engine) look() {
	t, certain := &e.test, true
	for i := range e.loads {
		a := &e.loads[i]
		n := int(math.Round(float64(t.passed) * a.tally.perTime))
		a.verdict = OverTime(a.tally.good[:n], a.tally.total[:n], 1-2*t.error)
		a.verdict.Low = math.Min(a.verdict.Low, clustered(a.tally.good[:n], a.tally.total[:n], 1-2*t.error))
		a.verdict.Confidence = 2*t.Confidence - 1
		fails := a.verdict.High < t.Share
		if t.Refuted > 0 {
			fails = OverTime(a.tally.good[:n], a.tally.total[:n], 2*t.Refuted-1).High < t.Share
		}
		certain = certain && (a.verdict.Low >= t.Share || fails)
	}
	all := e.end - e.begin
	switch {
	case certain:
		for i := range e.loads {
			e.queue.Drop(e.keys.load + int32(i))
		}
		e.end, t.at = min(e.end, t.at), never
	case t.passed >= all:
		t.at = never
	default:
		e.awaitLook(min(all, nextLook(t.First, t.passed)))
	}
}

// leastClusters is how many misses are taken to come together at least: before any was seen
// their clustering is unknown.
const leastClusters = 2

// clustered is the low end of the score interval of the requests that would be if all of one
// cluster were one: as many fewer as the misses of slices vary more than those of as many
// requests that are independent. Runs with few misses by chance have them vary little, too, which
// deceives who goes by the spread of the slices alone.
func clustered(good, total []int64, confidence float64) float64 {
	var g, n, slices, varies float64
	for i := range total {
		g, n = g+float64(good[i]), n+float64(total[i])
	}
	if n == 0 {
		return 0
	}
	p := g / n
	for i := range total {
		if of := float64(total[i]); of > 0 && p > 0 && p < 1 {
			off := float64(good[i]) - p*of
			slices, varies = slices+1, varies+off*off/(of*p*(1-p))
		}
	}
	return score(p, n/math.Max(leastClusters, varies/math.Max(1, slices-1)), confidence).Low
}

// foldFrom makes slices of which half have passed by then, and that grow with the run.
func (t *tally) foldFrom(first Time) { t.perTime, t.folds = slicesOfTime/float64(max(1, first)), true }

// fold makes one slice of two.
func (t *tally) fold() {
	for i := range t.total {
		good, total := int64(0), int64(0)
		if k := 2 * i; k < len(t.total) {
			good, total = t.good[k]+t.good[k+1], t.total[k]+t.total[k+1]
		}
		t.good[i], t.total[i] = good, total
	}
	t.perTime /= 2
}
