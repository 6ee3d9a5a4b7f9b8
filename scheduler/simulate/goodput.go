package simulate

import (
	"fmt"
	"math"
)

// Search states what goodput is and how closely to look for it.
type Search struct {
	Attainment float64 // share of each pipeline's requests to be in time; 0.99 when 0
	Tolerance  float64 // relative width at which the search ends; 0.005 when 0
	Seeds      int     // runs at each rate, from Seed up; 1 when 0
	Seed       uint64
	Start      float64 // a rate to begin with; 100 when 0

	// Low and High are rates that are known already to be sustained, and not to
	// be: the search goes on between them. High is 0 where none is known.
	Low, High float64
}

// Defaults of a Search, and the rates between which it looks.
const (
	DefaultAttainment = 0.99
	DefaultTolerance  = 0.005
	leastRate         = 1e-3
	mostRate          = 1e8
	leastOfHigh       = 1e-3 // of High: slower counts as not at all
	nearHigh          = 0.9  // of High, to begin with: a bound that was proven is often near
)

// Probe is what was seen at one total rate.
type Probe struct {
	Rate      float64
	Models    []Attained // each pipeline, over all seeds
	Least     int        // the place in Models of the one that attains least
	Sustained bool       // each pipeline attains its target
}

// Attained is what a pipeline attained over one run or several.
type Attained struct {
	Pipeline string `json:"pipeline"`
	Counts
	Attainment float64  `json:"attainment"` // Completed over Requests; 1 without requests
	Interval   Interval `json:"attainment_interval"`
}

// Worst is the pipeline that attained least.
func (p Probe) Worst() Attained {
	if len(p.Models) == 0 {
		return Attained{Attainment: 1, Interval: Interval{High: 1, Confidence: DefaultConfidence}}
	}
	return p.Models[p.Least]
}

// Goodput is the outcome of a search: Rate is sustained, Above is not, and they
// lie no further apart than the tolerance. The results at both show how certain that is.
// Rate is 0 where no rate is sustained, and Above is then the lowest that was tried.
type Goodput struct {
	Rate      float64
	At, Above Probe
	Tolerance float64
	Seeds     int
	Probes    []Probe // in the order in which they were made
}

// Own is what a pipeline attained at the goodput.
func (g Goodput) Own(pipeline string) Attained {
	for _, m := range g.At.Models {
		if m.Pipeline == pipeline {
			return m
		}
	}
	return Attained{Pipeline: pipeline, Attainment: 1}
}

// Run simulates at a total rate, the same pipelines in the same order every time.
// Where it gives up early (Options.GiveUp), more than enough requests must have
// been missed.
type Run func(rate float64, seed uint64) (Result, error)

func (s Search) withDefaults() Search {
	if s.Attainment == 0 {
		s.Attainment = DefaultAttainment
	}
	if s.Tolerance == 0 {
		s.Tolerance = DefaultTolerance
	}
	s.Seeds = max(1, s.Seeds)
	if s.Start == 0 {
		s.Start = 100
	}
	return s
}

func (s Search) check() error {
	switch {
	case !(s.Attainment > 0 && s.Attainment <= 1):
		return fmt.Errorf("simulate: attainment is a share above 0 and up to 1, such as 0.99, not %v", s.Attainment)
	case !(s.Tolerance >= 1e-4 && s.Tolerance < 1):
		return fmt.Errorf("simulate: the tolerance of goodput is a part of it from 0.0001 to below 1, not %v", s.Tolerance)
	case s.Low < 0 || s.High != 0 && !(s.High > s.Low):
		return fmt.Errorf("simulate: the highest rate is looked for between two rates that rise, not %v and %v", s.Low, s.High)
	case !(s.Start >= leastRate && s.Start <= mostRate):
		return fmt.Errorf("simulate: look for goodput from a rate of %g to %g requests per second, not %v", leastRate, mostRate, s.Start)
	}
	return nil
}

// FindGoodput looks for the highest total rate at which each pipeline reaches the
// attainment (Symphony, section 2.1), by doubling or halving and then bisection.
// It takes attainment to fall as the rate rises; where it does not quite, the
// rate found is sustained all the same. With few requests each, the measured minimum over
// many pipelines lies below the true one; some thousands are enough for 99 %.
func FindGoodput(run Run, s Search) (Goodput, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return Goodput{}, err
	}
	g := Goodput{Tolerance: s.Tolerance, Seeds: s.Seeds}
	holds := func(rate float64) (bool, error) {
		p, err := s.probe(run, rate)
		if err != nil {
			return false, err
		}
		g.Probes = append(g.Probes, p)
		if p.Sustained {
			g.Rate, g.At = rate, p
		} else {
			g.Above = p
		}
		return p.Sustained, nil
	}
	low, high, least := s.Low, s.High, leastOfHigh*s.High
	var err error
	if high == 0 {
		low, high, err = s.bracket(holds)
		least = high
	}
	for err == nil && (low > 0 || high > least) && high-low > s.Tolerance*high {
		middle := (low + high) / 2
		if low == 0 {
			middle = nearHigh * high
		}
		var ok bool
		if ok, err = holds(middle); ok {
			low = middle
		} else {
			high = middle
		}
	}
	return g, err
}

// bracket finds a rate that is sustained and a higher one, at most twice as
// high, that is not. Either is 0 where there is none.
func (s Search) bracket(holds func(float64) (bool, error)) (low, high float64, err error) {
	rate := s.Start
	ok, err := holds(rate)
	if err != nil {
		return 0, 0, err
	}
	if ok {
		for ; err == nil; rate *= 2 {
			if 2*rate > mostRate {
				return rate, 0, nil
			}
			if ok, err = holds(2 * rate); !ok {
				return rate, 2 * rate, err
			}
		}
		return 0, 0, err
	}
	for ; err == nil && rate/2 >= leastRate; rate /= 2 {
		if ok, err = holds(rate / 2); ok {
			return rate / 2, rate, err
		}
	}
	return 0, rate, err
}

// probe looks at one rate with every seed.
func (s Search) probe(run Run, rate float64) (Probe, error) {
	p := Probe{Rate: rate}
	for k := range s.Seeds {
		r, err := run(rate, s.Seed+uint64(k))
		if err != nil {
			return p, err
		}
		p.add(r.Pipelines)
	}
	for i := range p.Models {
		p.Models[i].sum(float64(s.Seeds))
		if p.Models[i].Attainment < p.Models[p.Least].Attainment {
			p.Least = i
		}
	}
	p.Sustained = p.Worst().Attainment >= s.Attainment
	return p, nil
}

// add counts a run. Until sum the intervals hold the squares of how far they
// reach to either side, added up over the runs.
func (p *Probe) add(run []PipelineResult) {
	if p.Models == nil {
		p.Models = make([]Attained, len(run))
	}
	for i, of := range run {
		m := &p.Models[i]
		m.Pipeline = of.Pipeline
		m.Counts.add(of.Counts)
		m.Interval.Low += math.Pow(of.Attainment-of.Interval.Low, 2)
		m.Interval.High += math.Pow(of.Interval.High-of.Attainment, 2)
		m.Interval.Confidence = of.Interval.Confidence
	}
}

func (m *Attained) sum(runs float64) {
	m.Attainment = 1
	if m.Requests > 0 {
		m.Attainment = float64(m.Completed) / float64(m.Requests)
	}
	m.Interval.Low = math.Max(0, m.Attainment-math.Sqrt(m.Interval.Low)/runs)
	m.Interval.High = math.Min(1, m.Attainment+math.Sqrt(m.Interval.High)/runs)
}

func (c *Counts) add(other Counts) {
	c.Requests += other.Requests
	c.Completed += other.Completed
	c.Late += other.Late
	c.Dropped += other.Dropped
	c.Refused += other.Refused
}

// Total is the sum over all pipelines.
func (r Result) Total() Counts {
	var c Counts
	for _, p := range r.Pipelines {
		c.add(p.Counts)
	}
	return c
}

// Interval holds a share with a stated confidence.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// DefaultConfidence of the intervals that a Result states.
const DefaultConfidence = 0.95

// slices is into how many stretches of time a run is cut to see how much the
// attainment varies from one to the next. A slice counts when it has enough
// requests for its share to mean something.
const (
	slicesOfTime = 32
	leastSlices  = 8
	leastInSlice = 10
)

// OverTime states what is known of a share after a run, from the requests in each
// stretch of time, all of the same length, and how many of them were good: the
// wider of wilson's interval, which takes requests to be independent, and that of
// batch means, which does not: misses come in bursts.
func OverTime(good, total []int64, confidence float64) Interval {
	var g, n int64
	for i := range total {
		g, n = g+good[i], n+total[i]
	}
	w := wilson(g, n, confidence)
	m, ok := batchMeans(good, total, confidence)
	if !ok {
		return w
	}
	return Interval{Low: math.Min(w.Low, m.Low), High: math.Max(w.High, m.High), Confidence: confidence}
}

// wilson is the score interval of a share of which good out of n were seen
// (wilson, JASA 22, 1927).
func wilson(good, n int64, confidence float64) Interval {
	if n == 0 {
		return Interval{Low: 0, High: 1, Confidence: confidence}
	}
	return score(float64(good)/float64(n), float64(n), confidence)
}

// score is the interval around a share p that was seen of m.
func score(p, m, confidence float64) Interval {
	z := normalQuantile(0.5 + confidence/2)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{Low: math.Max(0, math.Min(p, middle-half)), High: math.Min(1, math.Max(p, middle+half)), Confidence: confidence}
}

// batchMeans is the interval from the shares of the slices, each weighted by
// its requests (Law, Simulation Modeling and Analysis, section 9.5); false
// where there are too few.
func batchMeans(good, total []int64, confidence float64) (Interval, bool) {
	var n, g, k float64
	for i := range total {
		if total[i] < leastInSlice {
			continue
		}
		n, g, k = n+float64(total[i]), g+float64(good[i]), k+1
	}
	if k < leastSlices {
		return Interval{}, false
	}
	mean, sum := g/n, 0.0
	for i := range total {
		if total[i] >= leastInSlice {
			off := (float64(good[i]) - mean*float64(total[i])) / (n / k)
			sum += off * off
		}
	}
	half := studentQuantile(0.5+confidence/2, k-1) * math.Sqrt(sum/(k*(k-1)))
	return Interval{Low: math.Max(0, mean-half), High: math.Min(1, mean+half), Confidence: confidence}, true
}

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// studentQuantile is that of Student's distribution by the expansion of Hill
// (CACM 13, 1970) to its second term: off by less than 0.5 % from 7 degrees of
// freedom on.
func studentQuantile(p, freedom float64) float64 {
	z := normalQuantile(p)
	first := (z*z*z + z) / 4
	second := (5*math.Pow(z, 5) + 16*z*z*z + 3*z) / 96
	return z + first/freedom + second/(freedom*freedom)
}
