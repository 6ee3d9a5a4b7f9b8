// Package bayes is Bayesian optimisation over a list of candidates: after some of them
// have been tried, Next returns the one to try next. The unknown function is modelled as a
// Gaussian process with a squared-exponential kernel; the candidate with the greatest
// expected improvement is next (Mockus 1974; Jones, Schonlau, Welch 1998). Ribbon, with
// which Kairos is compared, and MBS, with which HarmonyBatch is, search this way.
package bayes

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

const (
	// nugget keeps the matrix of covariances regular where points are close.
	nugget = 1e-6
	// leastSpread is the variance below which all values tried count as one.
	leastSpread = 1e-12
)

// Tried is a point of the unit cube with the value that it turned out to have.
type Tried struct {
	At    []float64
	Value float64
}

// Next is the place of the candidate with the greatest expected improvement over the
// greatest value tried, the first of equals; -1 without candidates. length is the
// distance, in the unit cube, over which values hang together.
func Next(tried []Tried, candidates [][]float64, length float64) int {
	if len(candidates) == 0 {
		return -1
	}
	if len(tried) == 0 {
		return 0
	}
	mean, spread, best := standard(tried)
	n := len(tried)
	cov := mat.NewSymDense(n, nil)
	y := mat.NewVecDense(n, nil)
	for i := range tried {
		y.SetVec(i, (tried[i].Value-mean)/spread)
		for j := i; j < n; j++ {
			c := kernel(tried[i].At, tried[j].At, length)
			if i == j {
				c += nugget
			}
			cov.SetSym(i, j, c)
		}
	}
	var chol mat.Cholesky
	weights, solved := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	if !chol.Factorize(cov) || chol.SolveVecTo(weights, y) != nil {
		return 0 // points that cannot be distinguished carry no information
	}
	next, greatest := 0, math.Inf(-1)
	k := mat.NewVecDense(n, nil)
	for c, at := range candidates {
		for i := range tried {
			k.SetVec(i, kernel(at, tried[i].At, length))
		}
		variance := 1.0
		if chol.SolveVecTo(solved, k) == nil {
			variance = math.Max(0, 1-mat.Dot(k, solved))
		}
		if gain := improvement(mat.Dot(k, weights), math.Sqrt(variance), best); gain > greatest {
			next, greatest = c, gain
		}
	}
	return next
}

// standard is what makes the values tried have mean 0 and variance 1, and the greatest
// of them in that scale.
func standard(tried []Tried) (mean, spread, best float64) {
	greatest, square := math.Inf(-1), 0.0
	for _, t := range tried {
		mean += t.Value / float64(len(tried))
		greatest = math.Max(greatest, t.Value)
	}
	for _, t := range tried {
		square += (t.Value - mean) * (t.Value - mean) / float64(len(tried))
	}
	if spread = math.Sqrt(square); square < leastSpread {
		spread = 1
	}
	return mean, spread, (greatest - mean) / spread
}

// kernel is exp(-|a-b|²/2l²).
func kernel(a, b []float64, length float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Exp(-sum / (2 * length * length))
}

// improvement is E[max(0, X-best)] of a normal X.
func improvement(mean, deviation, best float64) float64 {
	if deviation == 0 {
		return math.Max(0, mean-best)
	}
	z := (mean - best) / deviation
	density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	return (mean-best)*math.Erfc(-z/math.Sqrt2)/2 + deviation*density
}
