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
	Kind   string        `json:",omitempty"` // what clients call streams of that kind, where a pipeline has several
	Rate   float64       // frames per second of one stream
	Count  int           // streams that the pipeline is planned for
	Jitter time.Duration `json:",omitempty"` // how far a frame may come after its pace; below 1/Rate
	Stale  string        `json:",omitempty"` // which frame goes where not all can be in time, one of Stales; empty for the first
	Phases string        `json:",omitempty"` // who decides when in a period a stream sends, one of StreamPhases; empty for the first
	Weight float64       `json:",omitempty"` // of its frames beside those of other kinds, where devices fall short; 0 for 1

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

// mostWeight bounds Stream.Weight.
const mostWeight = 1e6

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

// StreamKinds are the streams that a pipeline declares: one without a name, or those of several kinds;
// none where its requests are not frames.
func (p *Pipeline) StreamKinds() []Stream {
	if len(p.Kinds) > 0 || p.Stream.IsZero() {
		return p.Kinds
	}
	return []Stream{p.Stream}
}

// StreamsTotal is the frames per second of all streams that are declared.
func (p *Pipeline) StreamsTotal() float64 { return totalOf(p.StreamKinds()) }

func totalOf(kinds []Stream) (total float64) {
	for i := range kinds {
		total += kinds[i].Total()
	}
	return total
}

// Sending are the kinds of streams, with Count as many as send so many frames per second in all: whole
// ones, in the proportions that are declared.
func Sending(kinds []Stream, rate float64) []Stream {
	all := slices.Clone(kinds)
	if len(all) == 1 {
		all[0].Count = all[0].Senders(rate)
		return all
	}
	scale := func(by float64) float64 {
		for i := range all {
			all[i].Count = int(math.Ceil(by*float64(kinds[i].Count) - 1e-9))
		}
		return totalOf(all)
	}
	low, high := 0.0, rate/totalOf(kinds)
	if !(high > 0) || math.IsInf(high, 0) {
		return nil
	}
	for range 64 { // to the last bit
		if by := (low + high) / 2; scale(by) >= rate*(1-1e-9) {
			high = by
		} else {
			low = by
		}
	}
	scale(high)
	return all
}

// Sending are the kinds of streams, with as many of each as send the pipeline's rate.
func (p *Pipeline) Sending() []Stream { return Sending(p.StreamKinds(), p.Rate) }

// Streams is how many streams send the pipeline's rate; 0 where its requests are not frames of
// streams.
func (p *Pipeline) Streams() (n int) {
	for _, of := range p.Sending() {
		n += of.Count
	}
	return n
}

// RateFor is the rate to plan for where so much was measured: of streams whole ones, and no fewer
// than are declared, which may open at any time.
func (p *Pipeline) RateFor(measured float64) float64 {
	kinds := p.StreamKinds()
	if len(kinds) == 0 {
		return measured
	}
	return totalOf(Sending(kinds, max(measured, totalOf(kinds))))
}

// ComeSingly reports whether requests that come evenly come one by one, as they do but for streams
// whose phases nobody chooses, or of several rates, or whose frames have a jitter.
func (p *Pipeline) ComeSingly() bool {
	kinds := p.Sending()
	switch len(kinds) {
	case 0:
		return true
	case 1:
		of := &kinds[0]
		return of.Count == 0 || of.Jitter == 0 && (of.Count == 1 || of.Chosen())
	}
	return false
}

// StreamsApart is the least time between two frames of any stream that keeps to its pace.
func (p *Pipeline) StreamsApart() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, of := range p.StreamKinds() {
		least = min(least, of.Apart())
	}
	return least
}

// ChooseStreams is a copy of the pipeline whose streams have their phases chosen; false where they have
// already, or there are none.
func (p Pipeline) ChooseStreams() (Pipeline, bool) {
	p.Kinds = slices.Clone(p.Kinds)
	changed := false
	choose := func(s *Stream) {
		changed = changed || !s.Chosen()
		s.Phases = PhasesChosen
	}
	for i := range p.Kinds {
		choose(&p.Kinds[i])
	}
	if !p.Stream.IsZero() {
		choose(&p.Stream)
	}
	return p, changed
}

// path is where the block of a kind stands within its pipeline.
func (s *Stream) path() string {
	if s.Kind == "" {
		return StreamPath
	}
	return ".stream." + s.Kind
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
	switch {
	case s.Weight != 0 && s.Kind == "":
		add("weight", "Weight without another kind", "weight divides what devices can do among streams of several kinds: give this one a name, stream \"cameras\" { ... }, or leave weight out.")
	case !(s.Weight >= 0 && s.Weight <= mostWeight):
		add("weight", "Invalid weight", "weight is a number above 0, and at most 1000000: how large a share of what devices can do the frames of this kind have beside those of others.")
	}
	return all
}
