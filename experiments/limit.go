package experiments

import (
	"fmt"
	"math"
	"time"
)

// limitProblem is one model on a pool of equal executors.
type limitProblem struct {
	Arrivals  []time.Duration // rising
	Durations []time.Duration // Durations[b-1] for a batch of b; not falling
	SLO       time.Duration
	Executors int
}

// limitOptions says how much work to spend.
type limitOptions struct {
	Cell   time.Duration // of the time axis, for prices; 0 means SLO/100
	Rounds int           // of price changes; 0 means 100
}

// limitResult is a bound on the requests that can be served in time.
type limitResult struct {
	Served     float64 // no schedule serves more
	Attainment float64 // Served as a share of all requests
	Rounds     int
}

// Describe says the bound in one line.
func (r limitResult) Describe() string {
	return fmt.Sprintf("at most %.1f requests in time, %.4f of all (after %d rounds)", r.Served, r.Attainment, r.Rounds)
}

// Tuning of the search for prices.
const (
	hoped      = 0.985 // share of the requests that steps aim for (Polyak)
	patience   = 10    // rounds without progress before steps get shorter
	shorter    = 0.7
	noticeable = 0.1 // requests
)

// UpperLimit bounds what any dispatcher that knows all arrivals could serve in
// time. More rounds and smaller cells bring the bound down; every bound holds.
func UpperLimit(p limitProblem, o limitOptions) (limitResult, error) {
	if err := p.check(); err != nil {
		return limitResult{}, err
	}
	if o.Rounds <= 0 {
		o.Rounds = 100
	}
	if o.Cell <= 0 {
		o.Cell = max(1, p.SLO/100)
	}
	if len(p.Arrivals) == 0 {
		return limitResult{Attainment: 1}, nil
	}
	s := newSearch(p, o.Cell.Seconds())
	least, step, stale := float64(len(p.Arrivals)), 1.0, 0
	for range o.Rounds {
		value := s.solve()
		if value < least-noticeable {
			stale = 0
		} else if stale++; stale > patience {
			step, stale = step*shorter, 0
		}
		least = min(least, value)
		s.reprice(step * max(1, value-hoped*float64(len(p.Arrivals))))
	}
	return limitResult{Served: least, Attainment: least / float64(len(p.Arrivals)), Rounds: o.Rounds}, nil
}

func (p limitProblem) check() error {
	if p.SLO <= 0 || p.Executors <= 0 || len(p.Durations) == 0 {
		return fmt.Errorf("a limit needs an SLO, executors and durations above zero")
	}
	for b := range p.Durations {
		if p.Durations[b] <= 0 || b > 0 && p.Durations[b] < p.Durations[b-1] {
			return fmt.Errorf("the duration of a batch of %d must be above zero and no shorter than a smaller one's", b+1)
		}
	}
	for i, a := range p.Arrivals {
		if a < 0 || i > 0 && a < p.Arrivals[i-1] {
			return fmt.Errorf("arrival %d, at %v, must not be negative or before the one it follows", i, a)
		}
	}
	return nil
}

// search holds the prices and the shortest path for them. Times are in
// seconds.
type search struct {
	problem   limitProblem
	arrivals  []float64
	durations []float64
	slo, cell float64
	executors float64

	price []float64 // per second of an executor, by cell
	worth []float64 // of the time from zero to the start of a cell
	usage []float64 // executors at work beyond those that there are, by cell
	best  []float64 // value of the first i requests
	size  []int     // of the batch that ends there; 0 where the request is left out
	start []float64 // of that batch
}

func newSearch(p limitProblem, cell float64) *search {
	s := &search{problem: p, slo: p.SLO.Seconds(), cell: cell, executors: float64(p.Executors)}
	for _, a := range p.Arrivals {
		s.arrivals = append(s.arrivals, a.Seconds())
	}
	for _, d := range p.Durations {
		if d <= p.SLO {
			s.durations = append(s.durations, d.Seconds())
		}
	}
	n := len(p.Arrivals)
	cells := int(math.Ceil((s.arrivals[n-1]+s.slo)/cell)) + 2
	s.price, s.worth, s.usage = make([]float64, cells), make([]float64, cells+1), make([]float64, cells)
	s.best, s.size, s.start = make([]float64, n+1), make([]int, n+1), make([]float64, n+1)
	return s
}

// upTo is the worth of the time from zero to t.
func (s *search) upTo(t float64) float64 {
	c := int(t / s.cell)
	return s.worth[c] + (t-float64(c)*s.cell)*s.price[c]
}

// solve finds the best batches at the present prices and returns the bound.
func (s *search) solve() float64 {
	for c, price := range s.price {
		s.worth[c+1] = s.worth[c] + price*s.cell
	}
	n := len(s.arrivals)
	for i := range s.best {
		s.best[i] = math.Inf(-1)
	}
	s.best[0] = 0
	for i := range n {
		v := s.best[i]
		if v > s.best[i+1] {
			s.best[i+1], s.size[i+1] = v, 0
		}
		for b := 1; b <= len(s.durations) && i+b <= n; b++ {
			low, high := s.arrivals[i+b-1], s.latest(i, b)
			if low > high {
				break
			}
			if v+float64(b) <= s.best[i+b] {
				continue // not even free of charge
			}
			cost, at := s.cheapest(low, high, s.durations[b-1])
			if w := v + float64(b) - cost; w > s.best[i+b] {
				s.best[i+b], s.size[i+b], s.start[i+b] = w, b, at
			}
		}
	}
	return s.best[n] + s.worth[len(s.price)]*s.executors
}

// latest is when a batch of b that begins with request i must start.
func (s *search) latest(i, b int) float64 {
	return (s.problem.Arrivals[i] + s.problem.SLO - s.problem.Durations[b-1]).Seconds()
}

// cheapest is the start within low..high at which running for d costs least.
// The cost is linear between instants at which start or end cross cells.
func (s *search) cheapest(low, high, d float64) (cost, at float64) {
	cost, at = s.upTo(low+d)-s.upTo(low), low
	try := func(t float64) {
		if c := s.upTo(t+d) - s.upTo(t); c < cost {
			cost, at = c, t
		}
	}
	try(high)
	for c := math.Floor(low/s.cell) + 1; c*s.cell < high; c++ {
		try(max(low, c*s.cell))
	}
	for c := math.Floor((low+d)/s.cell) + 1; c*s.cell < high+d; c++ {
		try(max(low, c*s.cell-d))
	}
	return cost, at
}

// reprice moves the prices along the usage, by a step of that length.
func (s *search) reprice(step float64) {
	for c := range s.usage {
		s.usage[c] = -s.executors
	}
	for i := len(s.arrivals); i > 0; i -= max(1, s.size[i]) {
		if b := s.size[i]; b > 0 {
			s.occupy(s.start[i], s.start[i]+s.durations[b-1])
		}
	}
	norm := 0.0
	for c, u := range s.usage {
		if u > 0 || s.price[c] > 0 {
			norm += u * u
		}
	}
	if norm == 0 {
		return
	}
	for c, u := range s.usage {
		s.price[c] = max(0, s.price[c]+step*u/(norm*s.cell))
	}
}

// occupy adds a running batch to the usage.
func (s *search) occupy(from, to float64) {
	first, last := int(from/s.cell), int(to/s.cell)
	for c := first; c <= last; c++ {
		a, b := max(from, float64(c)*s.cell), min(to, float64(c+1)*s.cell)
		s.usage[c] += max(0, b-a) / s.cell
	}
}
