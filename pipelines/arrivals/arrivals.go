// Package arrivals is how requests come, for all that declares, simulates,
// plans for or offers them: evenly, at random, or as they once did. What one
// part takes for good arrivals, every part does, and the same seed draws the
// same instants everywhere.
//
// The gamma distribution is drawn here and not by a library, because clients
// that offer a load compile this package, and the library that has it brings
// linear algebra along.
package arrivals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Replay is the kind of arrivals that come at recorded instants; a declaration
// names none.
const Replay = "replay"

// never is later than any request.
const never = time.Duration(math.MaxInt64)

// Process is a way in which requests come. The zero value is even.
type Process struct {
	Kind   string             // pipelines.ArrivalsEven and so on, or Replay; empty means even
	Shape  float64            // of gamma: gaps have the coefficient of variation 1/sqrt(shape)
	Trace  *pipelines.Trace   // of trace; repeated when a run is longer
	Stamps []time.Duration    // of replay, rising; not repeated
	From   []int              // of replay: the stream that each is a frame of, from 0; nil for none
	Frames []pipelines.Stream // of frames: how streams of each kind send; as many of them as send the rate
}

// Declared are the arrivals that the pipeline says it will meet.
func Declared(pipe *pipelines.Pipeline) (Process, error) {
	kind, shape, file, err := pipelines.SplitArrivals(pipe.Arrivals)
	if err != nil {
		return Process{}, fmt.Errorf("pipeline %q: %w", pipe.Name, err)
	}
	if kind == pipelines.ArrivalsTrace && pipe.Trace.Total() == 0 {
		return Process{}, fmt.Errorf("pipeline %q: the trace %s was not read, or holds no requests", pipe.Name, file)
	}
	if kinds := pipe.StreamKinds(); len(kinds) > 0 {
		return Process{Kind: Frames, Frames: kinds}, nil
	}
	return Process{Kind: kind, Shape: shape, Trace: pipe.Trace}, nil
}

// Parse reads "even", "poisson", "gamma:SHAPE", "trace:FILE" or "replay:FILE". Of
// the last two it gives the name of the file, which is still to be read.
func Parse(text string) (p Process, file string, err error) {
	if file, ok := strings.CutPrefix(text, Replay+":"); ok && file != "" {
		return Process{Kind: Replay}, file, nil
	}
	p.Kind, p.Shape, file, err = pipelines.SplitArrivals(text)
	if err != nil {
		err = fmt.Errorf("%w, and replay:FILE", err)
	}
	return p, file, err
}

// String is the kind, with the shape of gamma.
func (p Process) String() string {
	switch p.Kind {
	case "":
		return pipelines.ArrivalsEven
	case pipelines.ArrivalsGamma:
		return p.Kind + ":" + strconv.FormatFloat(p.Shape, 'g', -1, 64)
	}
	return p.Kind
}

// Random reports whether the arrivals are other than even.
func (p Process) Random() bool {
	return p.Kind != "" && p.Kind != pipelines.ArrivalsEven && p.Kind != Frames
}

// Recorded is the mean rate and the length of a trace or of recorded instants;
// zero for other kinds.
func (p Process) Recorded() (rate float64, span time.Duration) {
	switch p.Kind {
	case pipelines.ArrivalsTrace:
		return p.Trace.Mean(), p.Trace.Span()
	case Replay:
		if n := len(p.Stamps); n > 0 {
			span = p.Stamps[n-1] + 1
			rate = float64(n) / span.Seconds()
		}
	}
	return rate, span
}

// Check is an error where no request can come in that way.
func (p Process) Check() error {
	switch p.Kind {
	case "", pipelines.ArrivalsEven, pipelines.ArrivalsPoisson:
		return nil
	case Frames:
		for _, of := range p.Frames {
			if faults := of.Faults(); len(faults) > 0 {
				return fmt.Errorf("arrivals: %s", faults[0].Detail)
			}
		}
		return nil
	case pipelines.ArrivalsGamma:
		_, _, _, err := pipelines.SplitArrivals(p.String()) // the same bounds as in a declaration
		return err
	case pipelines.ArrivalsTrace:
		if p.Trace.Total() > 0 {
			return nil
		}
		return fmt.Errorf("arrivals: the trace holds no requests")
	case Replay:
		if len(p.Stamps) == 0 {
			return fmt.Errorf("arrivals: there are no instants to replay")
		}
		if len(p.From) > 0 && (len(p.From) != len(p.Stamps) || slices.Min(p.From) < 0) {
			return fmt.Errorf("arrivals: %d instants and %d streams that they are frames of; give each its own, from 0", len(p.Stamps), len(p.From))
		}
		for i, at := range p.Stamps {
			if at < 0 || i > 0 && at < p.Stamps[i-1] {
				return fmt.Errorf("arrivals: instant %d of the replay is %v; instants must not be negative or fall", i+1, at)
			}
		}
		return nil
	}
	return fmt.Errorf("arrivals: there are no arrivals %q; there is even, poisson, gamma, trace and replay", p.Kind)
}

// Gap draws the time between two requests, with a mean of one; of recorded
// arrivals it is one.
func (p *Process) Gap(rng *rand.Rand) float64 {
	switch p.Kind {
	case pipelines.ArrivalsPoisson:
		return rng.ExpFloat64()
	case pipelines.ArrivalsGamma:
		return gamma(rng, p.Shape)
	}
	return 1
}

// Instants are those of all requests that come in a span at a mean rate, which
// may be zero only where recorded ones are to come as they were.
func (p Process) Instants(rate float64, span time.Duration, seed uint64) ([]time.Duration, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		return nil, fmt.Errorf("arrivals: a rate of %v requests per second cannot be offered", rate)
	}
	if was, _ := p.Recorded(); was == 0 && rate == 0 {
		return nil, nil
	}
	var all []time.Duration
	s := p.Stream(rate, span, rand.New(rand.NewPCG(seed, 0)))
	for at := s.Next(); at < span; at = s.Next() {
		all = append(all, at)
	}
	return all, nil
}

// Stream draws the instants of one pipeline's requests, one after the other.
type Stream struct {
	Process
	rng   *rand.Rand
	until time.Duration
	gap   float64 // mean, in nanoseconds
	at    float64 // of the last request, in nanoseconds
	n     int     // requests so far

	// Of a trace: where it stands, and what is left of a second.
	row, lap, left int
	scale          float64

	kinds []pipelines.Stream // of streams, and the next frame of each
	next  frames
	from  int
}

// Stream prepares the arrivals up to an instant at a mean rate, which is not
// zero; recorded ones come as they were where the rate is zero.
func (p Process) Stream(rate float64, until time.Duration, rng *rand.Rand) Stream {
	s := Stream{Process: p, rng: rng, until: until, gap: 1e9 / rate, scale: 1}
	if was, _ := p.Recorded(); was > 0 && rate > 0 {
		s.scale = rate / was
	}
	switch {
	case p.Kind == pipelines.ArrivalsTrace:
		s.row = -1
	case p.Kind == Frames && rate > 0:
		s.begin(rate)
	}
	return s
}

// Next is the instant of the next request; the latest that
// there is when no more come.
func (s *Stream) Next() time.Duration {
	s.n++
	switch s.Kind {
	case pipelines.ArrivalsPoisson, pipelines.ArrivalsGamma:
		s.at += s.Gap(s.rng) * s.gap
	case pipelines.ArrivalsTrace:
		return s.traced()
	case Frames:
		return s.framed()
	case Replay:
		if s.n > len(s.Stamps) {
			return never
		}
		if len(s.Process.From) > 0 {
			s.from = s.Process.From[s.n-1]
		}
		return time.Duration(math.Round(float64(s.Stamps[s.n-1]) / s.scale))
	default:
		s.at = float64(s.n-1) * s.gap
	}
	if s.at >= float64(never) {
		return never
	}
	return time.Duration(math.Round(s.at))
}

// Drawn is how many requests have come so far.
func (s *Stream) Drawn() int { return s.n }

// traced spreads the requests of each second over it: of n that are left, the
// next comes at the least of n uniform instants.
func (s *Stream) traced() time.Duration {
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
	return time.Duration(math.Min(s.at, end-1))
}

// gamma draws from the gamma distribution of that shape with a mean of one
// (Marsaglia and Tsang, ACM TOMS 26, 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return r.ExpFloat64()
	}
	boost, k := 1.0, shape
	if k < 1 {
		boost = math.Pow(1-r.Float64(), 1/k)
		k++
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * boost / shape
		}
	}
}
