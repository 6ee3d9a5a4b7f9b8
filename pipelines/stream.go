package pipelines

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Stream declares that the requests of a pipeline are frames of streams, such as cameras: each sends
// one every 1/Rate seconds, in order. The zero value is a pipeline whose requests have nothing to
// do with each other.
type Stream struct {
	Rate   float64       // frames per second of one stream
	Count  int           // streams that the pipeline is planned for
	Jitter time.Duration `json:",omitempty"` // how far a frame may come after its pace; below 1/Rate
	Stale  string        `json:",omitempty"` // which frame goes where not all can be in time, one of Stales; empty for the first
	Phases string        `json:",omitempty"` // who decides when in a period a stream sends, one of StreamPhases; empty for the first

	// Of streams that come and go at random, from which Count follows; see Sized.
	Opening  float64       `json:",omitempty"` // streams that open per second, on average; 0 where Count is declared
	Length   time.Duration `json:",omitempty"` // how long one lasts, on average
	Admitted float64       `json:",omitempty"` // share of them that is to find a place; 0 for DefaultAdmitted
}

// DefaultAdmitted is the share of streams that is to find a place where nothing is said.
const DefaultAdmitted = 0.99

// Sized is the stream with the Count that its Opening and Length ask for: the fewest places of which so
// many are free when a stream opens as Admitted says. With streams that open independently of each other
// (a Poisson process), whatever the distribution of their lengths, the share that finds none of n is
// Erlang's loss formula, B(0) = 1 and B(n) = a·B(n-1) / (n + a·B(n-1)) for a = Opening·Length (A. K.
// Erlang 1917; for any lengths B. A. Sevastyanov 1957). It is itself where Count is declared, or
// Opening and Length are no such rates.
func (s Stream) Sized() Stream {
	a, admitted := s.Opening*s.Length.Seconds(), cmp.Or(s.Admitted, DefaultAdmitted)
	if s.Opening == 0 || !(a > 0 && a <= MaxStreams) || !(admitted > 0 && admitted < 1) {
		return s
	}
	lost := 1.0
	for s.Count = 0; lost > 1-admitted; {
		s.Count++
		lost = a * lost / (float64(s.Count) + a*lost)
	}
	return s
}

// Which frame of a stream is dropped where not all of them can be in time.
const (
	StaleOldest    = "oldest"    // the one that has waited longest
	StaleNewest    = "newest"    // the one that comes
	StaleAlternate = "alternate" // every second one
)

// Stales are what Stream.Stale may be; the first is the default.
func Stales() []string { return []string{StaleOldest, StaleNewest, StaleAlternate} }

// Who decides when in a period of 1/Rate a stream sends its frames.
const (
	PhasesAny    = "any"    // the stream: all of them may send at one instant
	PhasesChosen = "chosen" // whoever sends them: they are spread evenly over the period
)

// StreamPhases are what Stream.Phases may be; the first is the default.
func StreamPhases() []string { return []string{PhasesAny, PhasesChosen} }

// MaxStreams bounds Stream.Count.
const MaxStreams = 1_000_000

// Bounds of Stream.Rate.
const leastFrameRate, mostFrameRate = 1e-3, 1e6

// StreamPath is where a stream block stands within its pipeline; see PlanPath.
const StreamPath = ".{stream}"

// IsZero reports whether there are no streams.
func (s Stream) IsZero() bool { return s == Stream{} }

// Total is the frames per second of all streams.
func (s Stream) Total() float64 { return s.Rate * float64(s.Count) }

// Period is the time from one frame of a stream to the next.
func (s Stream) Period() time.Duration { return time.Duration(float64(time.Second) / s.Rate) }

// Apart is the least time between two frames of a stream that keeps to its pace.
func (s Stream) Apart() time.Duration {
	return s.Period() - s.Jitter
}

// Chosen reports whether the phases of streams are chosen.
func (s Stream) Chosen() bool { return s.Phases == PhasesChosen }

// Tolerance is how far after its phase a frame may come before its stream is told to send at other
// times: the jitter that is planned for; without one half of the way to the phase of the next stream,
// for nobody sends to the instant.
func (s Stream) Tolerance() time.Duration {
	half := time.Duration(float64(time.Second) / (2 * s.Total()))
	if s.Chosen() && s.Jitter > 0 {
		return s.Jitter
	}
	return max(s.Jitter, half)
}

// Senders is how many streams send so many frames per second in all; 0 where there are no streams.
func (s Stream) Senders(rate float64) int {
	if !(s.Rate > 0) {
		return 0
	}
	return int(math.Ceil(rate/s.Rate - 1e-9))
}

// Streams is how many streams send the pipeline's rate; 0 where its requests are not frames of
// streams.
func (p *Pipeline) Streams() int { return p.Stream.Senders(p.Rate) }

// RateFor is the rate to plan for where so much was measured: of streams whole ones, and no fewer
// than are declared, which may open at any time.
func (p *Pipeline) RateFor(measured float64) float64 {
	if p.Streams() == 0 {
		return measured
	}
	return p.Stream.Rate * float64(max(p.Stream.Count, p.Stream.Senders(measured)))
}

// ComeSingly reports whether requests that come evenly come one by one, as they do but for streams
// whose phases nobody chooses or whose frames have a jitter.
func (p *Pipeline) ComeSingly() bool {
	n := p.Streams()
	return n == 0 || p.Stream.Jitter == 0 && (n == 1 || p.Stream.Chosen())
}

// Faults are what is wrong with a stream block.
func (s Stream) Faults() []Fault {
	var all []Fault
	add := func(attribute, summary, detail string) { all = append(all, Fault{attribute, summary, detail}) }
	if !(s.Rate >= leastFrameRate && s.Rate <= mostFrameRate) {
		add("rate", "Invalid rate", "rate is how many frames one stream sends per second, from 0.001 to 1000000.")
	}
	switch {
	case s.Opening != 0 && !(s.Opening > 0 && s.Opening*s.Length.Seconds() <= MaxStreams):
		add("opening", "Invalid rate", "opening is how many streams open per second, above zero; with length no more than 1000000 are open on average.")
	case s.Opening != 0 && s.Length <= 0:
		add("length", "Invalid length", "length is how long a stream lasts on average, such as \"3m\".")
	case s.Opening == 0 && s.Length != 0:
		add("length", "No rate of streams", "length is of streams that come and go: give opening, how many open per second, in place of count.")
	case s.Admitted != 0 && (s.Opening == 0 || !(s.Admitted > 0 && s.Admitted < 1)):
		add("admitted", "Invalid share", "admitted is the share of streams that is to find a place when it opens, between 0 and 1, beside opening and length.")
	case s.Count < 1 || s.Count > MaxStreams:
		add("count", "Invalid number of streams", "count is how many streams are planned for, from 1 to 1000000.")
	}
	if s.Jitter < 0 || len(all) == 0 && s.Jitter.Seconds() >= 1/s.Rate {
		add("jitter", "Invalid jitter", "jitter is how far a frame may come after its pace: not below zero, and less than the time between two frames of a stream.")
	}
	if s.Stale != "" && !slices.Contains(Stales(), s.Stale) {
		add("stale", "Unknown rule", `stale is which frame is dropped where not all can be in time: "oldest", "newest" or "alternate".`+Suggest(s.Stale, Stales()))
	}
	if s.Phases != "" && !slices.Contains(StreamPhases(), s.Phases) {
		add("phases", "Unknown phases", `phases is "any" where streams send when they like, and "chosen" where whoever sends spreads them over the period.`+Suggest(s.Phases, StreamPhases()))
	}
	return all
}
