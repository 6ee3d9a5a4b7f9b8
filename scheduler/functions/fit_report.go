package functions

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// FitReport says how far fitted coefficients are off what was measured.
type FitReport struct {
	Lines []FitLine `json:"lines"`
}

// FitLine is the error of one curve, relative to the measured latencies.
type FitLine struct {
	Name   string  `json:"name"`
	Points int     `json:"points"` // configurations measured
	RMS    float64 `json:"rms_error"`
	Worst  float64 `json:"worst_error"`
}

func (r *FitReport) add(name string, x, y []float64, f func(float64) float64) {
	line := FitLine{Name: name, Points: len(x), RMS: math.Sqrt(relativeSquares(x, y, f) / float64(len(x)))}
	for i := range x {
		line.Worst = math.Max(line.Worst, math.Abs(f(x[i])/y[i]-1))
	}
	r.Lines = append(r.Lines, line)
}

// Worst is the largest error of all curves.
func (r FitReport) Worst() float64 {
	worst := 0.0
	for _, l := range r.Lines {
		worst = math.Max(worst, l.Worst)
	}
	return worst
}

// Describe writes one line a curve.
func (r FitReport) Describe() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "curve\tpoints\terror\tat most\t")
	for _, l := range r.Lines {
		fmt.Fprintf(w, "%s\t%d\t%.2g %%\t%.2g %%\t\n", l.Name, l.Points, 100*l.RMS, 100*l.Worst)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
