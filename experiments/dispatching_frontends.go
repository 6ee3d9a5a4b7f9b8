package experiments

import (
	"math"
	"math/rand/v2"
)

// Uneven is what backends see when frontends share requests out without
// knowing of each other (Symphony, section 2.3 and table 2).
type Uneven struct {
	Window    float64
	Rate      float64
	Frontends int
	Mean      float64 // to one backend in a window
	Deviation float64
	Printed   float64 // by the paper
}

const (
	backends = 100
	windows  = 2000
)

// Frontends draws the four cases of the paper's table 2: Poisson arrivals that
// come to a random frontend each, which sends them to 100 backends by turns,
// beginning anywhere.
func Frontends(seed uint64) []Uneven {
	list := []Uneven{
		{Window: 400, Rate: 10000, Frontends: 1, Printed: 0.753},
		{Window: 400, Rate: 10000, Frontends: 25, Printed: 2.463},
		{Window: 200, Rate: 2000, Frontends: 1, Printed: 0.396},
		{Window: 200, Rate: 2000, Frontends: 25, Printed: 1.860},
	}
	for i := range list {
		list[i].draw(rand.New(rand.NewPCG(seed, uint64(i))))
	}
	return list
}

func (u *Uneven) draw(rng *rand.Rand) {
	next := make([]int, u.Frontends)
	for i := range next {
		next[i] = rng.IntN(backends)
	}
	var sum, squares float64
	at := 0.0
	for w := range windows {
		var got [backends]int
		for end := float64(w+1) * u.Window / 1000; ; {
			at += rng.ExpFloat64() / u.Rate
			f := rng.IntN(u.Frontends)
			got[next[f]]++
			next[f] = (next[f] + 1) % backends
			if at >= end {
				break
			}
		}
		for _, n := range got {
			sum, squares = sum+float64(n), squares+float64(n*n)
		}
	}
	n := float64(windows * backends)
	u.Mean = sum / n
	u.Deviation = math.Sqrt(squares/n - u.Mean*u.Mean)
}
