package simulate

import "math"

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
	z := normalQuantile(0.5 + confidence/2)
	p, m := float64(good)/float64(n), float64(n)
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
