package load

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Arrivals is a way in which requests come. The zero value is evenly paced.
type Arrivals struct {
	Kind  string    // "even", "poisson", "gamma" or "trace"; empty means even
	Shape float64   // of the gamma distribution of gaps; 1 is Poisson, less is burstier
	Trace []float64 // requests in each second, repeated when the run is longer
}

// ParseArrivals reads "even", "poisson", "gamma:SHAPE" or "trace:FILE". A trace
// file holds the number of requests in each second, one a line.
func ParseArrivals(s string) (Arrivals, error) {
	kind, arg, _ := strings.Cut(s, ":")
	switch kind {
	case "", "even":
		return Arrivals{Kind: "even"}, nil
	case "poisson":
		return Arrivals{Kind: "poisson"}, nil
	case "gamma":
		shape, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(shape > 0) || math.IsInf(shape, 0) {
			return Arrivals{}, fmt.Errorf("load: arrivals %q: the shape must be a positive number, as in gamma:0.1", s)
		}
		return Arrivals{Kind: "gamma", Shape: shape}, nil
	case "trace":
		f, err := os.Open(arg)
		if err != nil {
			return Arrivals{}, fmt.Errorf("load: arrivals %q: %w", s, err)
		}
		defer f.Close()
		trace, err := ReadTrace(f, arg)
		return Arrivals{Kind: "trace", Trace: trace}, err
	}
	return Arrivals{}, fmt.Errorf("load: arrivals %q: use even, poisson, gamma:SHAPE or trace:FILE", s)
}

// ReadTrace reads counts per second, one a line; empty lines and lines that
// begin with # are passed over. name is used in errors only.
func ReadTrace(r io.Reader, name string) ([]float64, error) {
	var trace []float64
	total := 0.0
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("load: %s:%d: %q is not a number of requests", name, line, text)
		}
		trace = append(trace, n)
		total += n
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("load: %s: %w", name, err)
	}
	if total == 0 {
		return nil, fmt.Errorf("load: %s: the trace holds no requests", name)
	}
	return trace, nil
}

// Instants draws when requests are to be sent over span, as offsets from its
// start in rising order. rate is the mean number per second; for a trace it
// scales the counts to that mean, and 0 leaves them as they are.
func (a Arrivals) Instants(rate float64, span time.Duration, seed uint64) ([]time.Duration, error) {
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		return nil, fmt.Errorf("load: a rate of %v requests per second cannot be offered", rate)
	}
	if a.Kind == "trace" {
		return a.traced(rate, span, seed), nil
	}
	if rate == 0 {
		return nil, nil
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	gap := func() float64 { return 1 / rate }
	switch a.Kind {
	case "poisson":
		gap = func() float64 { return rng.ExpFloat64() / rate }
	case "gamma":
		gap = func() float64 { return gamma(rng, a.Shape) / (a.Shape * rate) }
	}
	var at []time.Duration
	for t := gap() / 2; t < span.Seconds(); t += gap() {
		at = append(at, time.Duration(t*float64(time.Second)))
	}
	return at, nil
}

// traced draws each second's requests as a Poisson process of that second's
// rate, which is how a count per second is commonly replayed.
func (a Arrivals) traced(rate float64, span time.Duration, seed uint64) []time.Duration {
	scale := 1.0
	if rate > 0 {
		sum := 0.0
		for _, n := range a.Trace {
			sum += n
		}
		scale = rate * float64(len(a.Trace)) / sum
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var at []time.Duration
	for second := 0; float64(second) < span.Seconds(); second++ {
		n := a.Trace[second%len(a.Trace)] * scale
		for t := 0.0; n > 0; {
			t += rng.ExpFloat64() / n
			when := float64(second) + t
			if t >= 1 || when >= span.Seconds() {
				break
			}
			at = append(at, time.Duration(when*float64(time.Second)))
		}
	}
	return at
}

// gamma draws from the gamma distribution with the given shape and scale 1
// (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
