package functions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"

	"github.com/harpagon/harpagon/pipelines"
)

// Tuning of the searches for the coefficients that are not linear.
const (
	fitScan   = 400   // points of the first scan, evenly spaced by ratio
	fitRounds = 60    // golden-section steps after it
	fitReach  = 20.0  // how far beyond the measured sizes a coefficient may lie
	fitMost   = 86400 // seconds, that a coefficient of a profile may be
	fitFloor  = 1e-9  // seconds; shorter latencies are taken for clock errors
	sliceLow  = 1e-5  // shortest time slice looked for, seconds per GB
	sliceHigh = 0.1   // longest
)

// Sample is one measured call of a function.
type Sample struct {
	Platform Platform
	Size     float64 // vCPU, or GB of GPU memory
	Batch    int
	Seconds  float64 // that the call took
}

// cell is what was measured of one configuration.
type cell struct {
	platform Platform
	batch    int
	size     float64
	avg, max float64
	calls    int
}

// Fit finds the coefficients of a model from measured calls, by least squares
// of relative errors (the paper's section III-A). Averages and maxima of the
// calls of a configuration are fitted one by one.
//
// On CPU functions (equation 1) the latency is linear in alpha and gamma once
// beta is known, so beta alone is searched, and the others follow by linear
// regression; each batch size needs three sizes of function. On GPU functions
// (equations 2 and 3) averages with m of wholeGB, times m/wholeGB, are a line
// over the batch, which needs two batch sizes; the length of a time slice
// follows from the maxima (equation 4), where functions smaller than the device
// were measured, and is left open otherwise. wholeGB of 0 takes the largest
// function measured for the whole device.
func Fit(samples []Sample, wholeGB float64) (pipelines.FunctionProfile, FitReport, error) {
	cells, err := summarize(samples)
	if err != nil {
		return pipelines.FunctionProfile{}, FitReport{}, err
	}
	var p pipelines.FunctionProfile
	var report FitReport
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].platform == cells[0].platform && (cells[0].platform == GPU || cells[n].batch == cells[0].batch) {
			n++
		}
		if cells[0].platform == CPU {
			err = fitCPU(cells[:n], &p, &report)
		} else {
			err = fitGPU(cells[:n], wholeGB, &p, &report)
		}
		if err != nil {
			return pipelines.FunctionProfile{}, FitReport{}, err
		}
		cells = cells[n:]
	}
	return p, report, nil
}

// summarize joins the calls of a configuration, and sorts by platform, batch
// and size.
func summarize(samples []Sample) ([]cell, error) {
	if len(samples) == 0 {
		return nil, fmt.Errorf("functions: there are no measurements to fit")
	}
	found := map[Sample]*cell{}
	for _, s := range samples {
		switch {
		case s.Platform != CPU && s.Platform != GPU:
			return nil, fmt.Errorf("functions: a measurement is of platform %q; there is cpu and gpu", s.Platform)
		case !(s.Size > 0) || math.IsInf(s.Size, 0) || s.Batch < 1 || !(s.Seconds > fitFloor) || math.IsInf(s.Seconds, 0):
			return nil, fmt.Errorf("functions: a measurement has size %v, batch %d and takes %v s; all must be above zero", s.Size, s.Batch, s.Seconds)
		}
		key := Sample{Platform: s.Platform, Size: s.Size, Batch: s.Batch}
		c := found[key]
		if c == nil {
			c = &cell{platform: s.Platform, batch: s.Batch, size: s.Size}
			found[key] = c
		}
		c.calls++
		c.avg += (s.Seconds - c.avg) / float64(c.calls)
		c.max = math.Max(c.max, s.Seconds)
	}
	var all []cell
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.platform, b.platform), cmp.Compare(a.batch, b.batch), cmp.Compare(a.size, b.size))
	})
	return all, nil
}

func fitCPU(cells []cell, p *pipelines.FunctionProfile, report *FitReport) error {
	batch := cells[0].batch
	if len(cells) < 3 {
		return fmt.Errorf("functions: CPU functions of batch %d were measured with %d sizes; a curve needs three", batch, len(cells))
	}
	var sizes, avg, most []float64
	for _, c := range cells {
		sizes, avg, most = append(sizes, c.size), append(avg, c.avg), append(most, c.max)
	}
	curves := pipelines.CPUCurves{Batch: batch, Avg: fitCurve(sizes, avg), Max: fitCurve(sizes, most)}
	p.CPU = append(p.CPU, curves)
	report.add(fmt.Sprintf("cpu, batch %d, average", batch), sizes, avg, curves.Avg.At)
	report.add(fmt.Sprintf("cpu, batch %d, maximum", batch), sizes, most, curves.Max.At)
	return nil
}

// fitCurve scans beta by ratio and narrows down around the best.
func fitCurve(sizes, latency []float64) pipelines.Curve {
	loss := func(logBeta float64) float64 {
		k := linearCurve(math.Exp(logBeta), sizes, latency)
		if k.Alpha > fitMost { // sizes so large that nothing is known of the smaller ones
			return math.MaxFloat64
		}
		return relativeSquares(sizes, latency, k.At)
	}
	low, high := math.Log(slices.Min(sizes)/fitReach), math.Log(slices.Max(sizes)*fitReach)
	return linearCurve(math.Exp(minimize(loss, low, high)), sizes, latency)
}

// linearCurve is the best curve with that beta: a regression over exp(-c/beta),
// weighted by 1/latency². Coefficients below zero are set to zero, and the other
// one fitted alone.
func linearCurve(beta float64, sizes, latency []float64) pipelines.Curve {
	x, w := make([]float64, len(sizes)), weights(latency)
	for i, c := range sizes {
		x[i] = math.Exp(-c / beta)
	}
	gamma, alpha := stat.LinearRegression(x, latency, w, false)
	switch {
	case !(alpha >= 0):
		alpha, gamma = 0, stat.Mean(latency, w)
	case gamma < 0:
		_, alpha = stat.LinearRegression(x, latency, w, true)
		gamma = 0
	}
	return pipelines.Curve{Alpha: alpha, Beta: beta, Gamma: gamma}
}

func fitGPU(cells []cell, wholeGB float64, p *pipelines.FunctionProfile, report *FitReport) error {
	if wholeGB == 0 {
		for _, c := range cells {
			wholeGB = math.Max(wholeGB, c.size)
		}
	}
	var batches, whole, shares, most []float64
	for _, c := range cells {
		if c.size > wholeGB*(1+memoryTolerance) {
			return fmt.Errorf("functions: a GPU function of %v GB was measured on a device of %v GB", c.size, wholeGB)
		}
		batches, whole = append(batches, float64(c.batch)), append(whole, c.avg*c.size/wholeGB)
		shares, most = append(shares, c.size), append(most, c.max)
	}
	if slices.Min(batches) == slices.Max(batches) {
		return fmt.Errorf("functions: GPU functions were measured with a batch of %v only; a line needs two batch sizes", batches[0])
	}
	xi2, xi1 := stat.LinearRegression(batches, whole, weights(whole), false)
	g := &pipelines.GPULine{Xi1: xi1, Xi2: xi2, WholeGB: wholeGB}
	if xi1 < 0 { // the batch makes no difference but for noise
		g.Xi1, g.Xi2 = 0, stat.Mean(whole, weights(whole))
	}
	if !(g.Whole(1) > 0) {
		return fmt.Errorf("functions: by the measurements a batch of one would take %.3g s on the GPU; measure smaller batches", g.Whole(1))
	}
	p.GPU = g
	report.add("gpu, average", batches, whole, func(b float64) float64 { return g.Whole(int(b)) })
	if slices.Min(shares) < wholeGB {
		fitSlice(g, batches, shares, most, report)
	}
	return nil
}

// fitSlice finds the time slice that explains the maxima best. They rise in
// steps, so the loss has many valleys; the scan finds the deepest.
func fitSlice(g *pipelines.GPULine, batches, shares, most []float64, report *FitReport) {
	at := func(slice float64, i int) float64 {
		return g.Max(int(batches[i]), shares[i], pipelines.GPUDevice{Memory: g.WholeGB, Slice: slice})
	}
	index := make([]float64, len(most))
	for i := range index {
		index[i] = float64(i)
	}
	loss := func(logSlice float64) float64 {
		return relativeSquares(index, most, func(i float64) float64 { return at(math.Exp(logSlice), int(i)) })
	}
	g.Slice = math.Exp(minimize(loss, math.Log(sliceLow), math.Log(sliceHigh)))
	report.add("gpu, maximum", index, most, func(i float64) float64 { return at(g.Slice, int(i)) })
}

// minimize finds the least value of f between low and high: an even scan, then
// a golden section around its best point.
func minimize(f func(float64) float64, low, high float64) float64 {
	best, least := low, math.Inf(1)
	step := (high - low) / fitScan
	for i := range fitScan + 1 {
		if x := low + float64(i)*step; f(x) < least {
			best, least = x, f(x)
		}
	}
	a, b := math.Max(low, best-step), math.Min(high, best+step)
	ratio := (math.Sqrt(5) - 1) / 2
	for range fitRounds {
		c, d := b-ratio*(b-a), a+ratio*(b-a)
		if f(c) < f(d) {
			b = d
		} else {
			a = c
		}
	}
	if x := (a + b) / 2; f(x) < least {
		return x
	}
	return best
}

func weights(latency []float64) []float64 {
	w := make([]float64, len(latency))
	for i, y := range latency {
		w[i] = 1 / (y * y)
	}
	return w
}

func relativeSquares(x, y []float64, f func(float64) float64) float64 {
	sum := 0.0
	for i := range x {
		e := f(x[i])/y[i] - 1
		sum += e * e
	}
	return sum
}

// FitReport states how far fitted coefficients are off what was measured.
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

// What a model is fitted from: more sizes and batches than coefficients, so that the report
// can state how far the curves are off.
const (
	surveyCPUSizes = 5
	surveyGPUSizes = 3
	surveyCPUBatch = 4  // the largest on CPU functions
	surveyRange    = 64 // of the largest CPU function; smaller ones take too long
)

// Survey lists the functions of a provider, with batches, that are called to learn how
// long a model takes: sizes from the smallest to the largest in even ratios, batches
// in powers of two up to maxBatch. Functions of one size follow each other, the
// smallest batch first. Latencies and costs of the offers are open.
func Survey(p *pipelines.Provider, memory pipelines.HostMemory, maxBatch int) []Offer {
	var all []Offer
	for _, size := range spread(p.VCPU, math.Max(p.VCPU.Min, p.VCPU.Max/surveyRange), surveyCPUSizes) {
		for b := 1; b <= min(maxBatch, surveyCPUBatch); b *= 2 {
			if host, fits := memory.OnCPU(p, size, b); fits {
				all = append(all, Offer{Platform: CPU, VCPU: size, Host: host, Batch: b})
			}
		}
	}
	for _, size := range spread(p.GPUMemory, p.GPUMemory.Min, surveyGPUSizes) {
		for b := 1; b <= maxBatch; b *= 2 {
			all = append(all, Offer{Platform: GPU, GPUMemory: size, Host: memory.GPUGB, Batch: b})
		}
	}
	return all
}

// spread is n values of a grid from one on, or as many as there are, in even ratios.
func spread(g pipelines.Grid, from float64, n int) []float64 {
	if g.Len() == 0 {
		return nil
	}
	var all []float64
	for i := range n {
		at := from * math.Pow(g.Max/from, float64(i)/float64(n-1))
		k := int(math.Round((at - g.Min) / g.Step))
		all = append(all, g.At(max(0, min(k, g.Len()-1))))
	}
	return slices.Compact(all)
}
