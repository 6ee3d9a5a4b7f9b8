package pipelines

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kinds of arrivals that a declaration may name.
const (
	ArrivalsEven    = "even"    // one every 1/rate seconds
	ArrivalsPoisson = "poisson" // independent, with exponential gaps
	ArrivalsGamma   = "gamma"   // gamma:SHAPE, gaps of that gamma distribution; below 1 is burstier than Poisson
	ArrivalsTrace   = "trace"   // trace:FILE, requests in each second
)

// Bounds of what arrivals may say. Beyond those of the shape, gaps cannot be
// told from none, or from even ones.
const (
	minShape, maxShape = 1e-3, 1e6
	MaxCount           = 1e8     // requests in one second
	MaxSpan            = 1 << 30 // seconds; 34 years
	MaxDeclaredTrace   = 100_000 // lines; the declaration travels with its trace
)

// Trace is how many requests come in each second.
type Trace struct {
	Seconds []int64   // rising; those in between have no requests
	Counts  []float64 // by place in Seconds, not negative
}

// Span is the whole number of seconds from the start to the end of the last
// second that the trace names.
func (t *Trace) Span() time.Duration {
	if t == nil || len(t.Seconds) == 0 {
		return 0
	}
	return time.Duration(t.Seconds[len(t.Seconds)-1]+1) * time.Second
}

// Total is the number of requests.
func (t *Trace) Total() float64 {
	sum := 0.0
	if t != nil {
		for _, n := range t.Counts {
			sum += n
		}
	}
	return sum
}

// Mean is the requests per second over the whole span.
func (t *Trace) Mean() float64 {
	if t.Span() == 0 {
		return 0
	}
	return t.Total() / t.Span().Seconds()
}

// SplitArrivals reads "even", "poisson", "gamma:SHAPE" or "trace:FILE"; empty
// means even. Of a trace it gives the name of the file.
func SplitArrivals(s string) (kind string, shape float64, file string, err error) {
	kind, rest, given := strings.Cut(s, ":")
	switch kind {
	case "":
		if s == "" {
			return ArrivalsEven, 0, "", nil
		}
	case ArrivalsEven, ArrivalsPoisson:
		if !given {
			return kind, 0, "", nil
		}
		return "", 0, "", fmt.Errorf("arrivals %q: %s takes nothing after it", s, kind)
	case ArrivalsGamma:
		shape, err := strconv.ParseFloat(rest, 64)
		if err != nil || !(shape >= minShape && shape <= maxShape) {
			return "", 0, "", fmt.Errorf("arrivals %q: the shape of gamma is a number from %g to %g, as in gamma:0.1; 1 is Poisson, less is burstier", s, minShape, maxShape)
		}
		return kind, shape, "", nil
	case ArrivalsTrace:
		if rest == "" {
			return "", 0, "", fmt.Errorf("arrivals %q: name the file of the trace, as in trace:counts.csv", s)
		}
		return kind, 0, rest, nil
	}
	return "", 0, "", fmt.Errorf("there are no arrivals %q; there is even, poisson, gamma:SHAPE and trace:FILE", s)
}
