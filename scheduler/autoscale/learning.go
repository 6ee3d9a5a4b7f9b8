package autoscale

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// What a Learning waits for.
const (
	learnQueries  = 20               // of a kind of instance, until it is known
	learnPatience = 30 * time.Second // from the first query on, for kinds that get few
	learnPause    = 20 * time.Second // between two advices
)

// Learning finds out what queries take on the instances of a pool of which nothing was
// measured before it served. Like Drift it is a value that a workflow may keep.
type Learning struct {
	Since time.Time // when the first queries had been seen
	Quiet time.Time // no advice before
	Runs  []BatchDuration
}

// Observe takes the measures of the next span of time, and gives a profile up to the
// largest query once every kind is known, or the base is and the patience has ended; nil
// until then. A kind that is not known then has no points.
func (l *Learning) Observe(m Measures, base string, kinds []string, largest int) []pipelines.Point {
	if len(m.Modules) == 0 {
		return nil
	}
	for _, r := range m.Modules[0].Durations {
		i := slices.IndexFunc(l.Runs, func(o BatchDuration) bool { return o.Hardware == r.Hardware && o.Size == r.Size })
		if i < 0 {
			l.Runs = append(l.Runs, r)
		} else if r.Batches >= l.Runs[i].Batches {
			l.Runs[i] = r
		}
	}
	if len(l.Runs) == 0 {
		return nil
	}
	if l.Since.IsZero() {
		l.Since = m.To
	}
	known := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return l.queries(kind) < learnQueries })
	all := len(known) == len(kinds) || m.To.Sub(l.Since) >= learnPatience
	if !all || !slices.Contains(known, base) || m.To.Before(l.Quiet) {
		return nil
	}
	l.Quiet = m.To.Add(learnPause)
	var points []pipelines.Point
	for _, kind := range known {
		points = append(points, l.profile(kind, largest)...)
	}
	return points
}

func (l *Learning) queries(kind string) (n int64) {
	for _, r := range l.Runs {
		if r.Hardware == kind {
			n += r.Batches
		}
	}
	return n
}

// profile is what was seen of a kind, gone on with in a straight line up to the largest
// query; in proportion where queries of one size were seen.
func (l *Learning) profile(kind string, largest int) []pipelines.Point {
	var points []pipelines.Point
	for _, r := range l.Runs {
		if r.Hardware == kind && r.P50 > 0 {
			points = append(points, pipelines.Point{Hardware: kind, Batch: r.Size, Concurrency: 1, Duration: r.P50, Spread: max(0, r.P95-r.P50)})
		}
	}
	points = pipelines.IsotonicPoints(points)
	seen := pipelines.Profile{Points: points}.Latency(kind)
	if last := seen.Largest(); last > 0 && last < largest {
		took := seen.At(largest)
		if len(seen) == 1 {
			took = time.Duration(float64(took) * float64(largest) / float64(last))
		}
		points = append(points, pipelines.Point{Hardware: kind, Batch: largest, Concurrency: 1, Duration: took, Spread: points[len(points)-1].Spread})
	}
	return points
}

// Describe says what was learned in one line.
func (l *Learning) Describe(points []pipelines.Point) string {
	var parts []string
	for i, p := range points {
		if i == 0 || points[i-1].Hardware != p.Hardware {
			parts = append(parts, fmt.Sprintf("%d on %s", l.queries(p.Hardware), p.Hardware))
		}
	}
	return "learned what queries take, from " + strings.Join(parts, " and ")
}
