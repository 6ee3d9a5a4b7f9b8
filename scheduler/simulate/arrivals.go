package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// ArrivalsReplay is the kind of arrivals that come at recorded instants.
const ArrivalsReplay = "replay"

// Arrivals is a way in which requests come. The zero value is even.
type Arrivals struct {
	Kind   string           // pipelines.ArrivalsEven and so on, or ArrivalsReplay; empty means even
	Shape  float64          // of gamma: gaps have the coefficient of variation 1/sqrt(shape)
	Trace  *pipelines.Trace // of trace; repeated when a run is longer
	Stamps []time.Duration  // of replay, rising; not repeated
}

// Declared are the arrivals that the pipeline says it will meet.
func Declared(p *pipelines.Pipeline) (Arrivals, error) {
	kind, shape, file, err := pipelines.SplitArrivals(p.Arrivals)
	if err != nil {
		return Arrivals{}, fmt.Errorf("simulate: pipeline %q: %w", p.Name, err)
	}
	if kind == pipelines.ArrivalsTrace && p.Trace.Total() == 0 {
		return Arrivals{}, fmt.Errorf("simulate: pipeline %q: the trace %s was not read, or holds no requests", p.Name, file)
	}
	return Arrivals{Kind: kind, Shape: shape, Trace: p.Trace}, nil
}

// String is the kind, with the shape of gamma.
func (a Arrivals) String() string {
	switch a.Kind {
	case "":
		return pipelines.ArrivalsEven
	case pipelines.ArrivalsGamma:
		return a.Kind + ":" + strconv.FormatFloat(a.Shape, 'g', -1, 64)
	}
	return a.Kind
}

// Random says whether the arrivals are other than even.
func (a Arrivals) Random() bool { return a.Kind != "" && a.Kind != pipelines.ArrivalsEven }

// Recorded is the mean rate and the length of a trace or of recorded instants;
// zero for other kinds.
func (a Arrivals) Recorded() (rate float64, span time.Duration) {
	switch a.Kind {
	case pipelines.ArrivalsTrace:
		return a.Trace.Mean(), a.Trace.Span()
	case ArrivalsReplay:
		if n := len(a.Stamps); n > 0 {
			span = a.Stamps[n-1] + 1
			rate = float64(n) / span.Seconds()
		}
	}
	return rate, span
}

func (a Arrivals) check() error {
	switch a.Kind {
	case "", pipelines.ArrivalsEven, pipelines.ArrivalsPoisson:
		return nil
	case pipelines.ArrivalsGamma:
		if !(a.Shape > 0) || math.IsInf(a.Shape, 0) {
			return fmt.Errorf("simulate: the shape of gamma arrivals is %v; it must be a number above zero", a.Shape)
		}
		return nil
	case pipelines.ArrivalsTrace:
		if a.Trace.Total() > 0 {
			return nil
		}
		return fmt.Errorf("simulate: the trace holds no requests")
	case ArrivalsReplay:
		if len(a.Stamps) == 0 {
			return fmt.Errorf("simulate: there are no instants to replay")
		}
		for i, at := range a.Stamps {
			if at < 0 || i > 0 && at < a.Stamps[i-1] {
				return fmt.Errorf("simulate: instant %d of the replay is %v; instants must not be negative or fall", i+1, at)
			}
		}
		return nil
	}
	return fmt.Errorf("simulate: there are no arrivals %q; there is even, poisson, gamma, trace and replay", a.Kind)
}

// stream draws the instants of one pipeline's requests, one after the other.
type stream struct {
	Arrivals
	rng   *rand.Rand
	until Time
	gap   float64 // mean, in nanoseconds
	at    float64 // of the last request, in nanoseconds
	n     int     // requests so far

	// Of a trace: where it stands, and what is left of a second.
	row, lap, left int
	scale          float64
}

// stream prepares the arrivals up to an instant at a mean rate, which is not
// zero; recorded ones come as they were where the rate is zero.
func (a Arrivals) stream(rate float64, until Time, rng *rand.Rand) stream {
	s := stream{Arrivals: a, rng: rng, until: until, gap: 1e9 / rate, scale: 1}
	if was, _ := a.Recorded(); was > 0 && rate > 0 {
		s.scale = rate / was
	}
	if a.Kind == pipelines.ArrivalsTrace {
		s.row = -1
	}
	return s
}

// next is the instant of the next request; never when there is no more.
func (s *stream) next() Time {
	s.n++
	switch s.Kind {
	case pipelines.ArrivalsPoisson:
		s.at += s.rng.ExpFloat64() * s.gap
	case pipelines.ArrivalsGamma:
		s.at += drawGamma(s.rng, s.Shape) * s.gap
	case pipelines.ArrivalsTrace:
		return s.traced()
	case ArrivalsReplay:
		if s.n > len(s.Stamps) {
			return never
		}
		return Time(math.Round(float64(s.Stamps[s.n-1]) / s.scale))
	default:
		s.at = float64(s.n-1) * s.gap
	}
	if s.at >= float64(never) {
		return never
	}
	return Time(math.Round(s.at))
}

// traced spreads the requests of each second over it: of n that are left, the
// next comes at the least of n uniform instants.
func (s *stream) traced() Time {
	const second = float64(time.Second)
	for s.left == 0 {
		if s.row++; s.row == len(s.Trace.Seconds) {
			s.row, s.lap = 0, s.lap+1
		}
		n := s.Trace.Counts[s.row] * s.scale
		s.left = int(n)
		if s.rng.Float64() < n-math.Floor(n) {
			s.left++
		}
		s.at = (float64(s.lap)*s.Trace.Span().Seconds() + float64(s.Trace.Seconds[s.row])) * second
		if s.at >= float64(s.until) {
			return never
		}
	}
	end := (float64(s.lap)*s.Trace.Span().Seconds() + float64(s.Trace.Seconds[s.row]) + 1) * second
	s.at += (end - s.at) * (1 - math.Pow(1-s.rng.Float64(), 1/float64(s.left)))
	s.left--
	return Time(math.Min(s.at, end-1))
}
