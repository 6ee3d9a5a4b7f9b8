package simulate

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Describe writes the result for people: for each pipeline what became of its
// requests and a line a module, and how busy the devices were.
func (r Result) Describe() string {
	var b strings.Builder
	for i, p := range r.Pipelines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Describe())
	}
	if len(r.Devices) > 0 {
		b.WriteString("\n" + r.describeDevices())
	}
	return b.String()
}

// Describe writes what became of the requests of the pipeline.
func (p PipelineResult) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d requests at %s/s, %s, dispatch %s, seed %d\n", p.Pipeline, p.Requests, number(p.Rate), p.Arrivals, p.Dispatch, p.Seed)
	fmt.Fprintf(&b, "%s in time (%s to %s with %.0f %% confidence): %d completed, %d late, %d dropped, %d refused\n",
		percent(p.Attainment), percent(p.Interval.Low), percent(p.Interval.High), 100*p.Interval.Confidence, p.Completed, p.Late, p.Dropped, p.Refused)
	fmt.Fprintf(&b, "latency p50 %s, p99 %s, max %s of %s; mean batch %s on %s, %s of the time used\n",
		spell(p.Latency.P50), spell(p.Latency.P99), spell(p.Latency.Max), spell(p.SLO), number(p.MeanBatch), devices(p.Devices), percent(p.Utilisation))
	if p.Goodput != nil {
		b.WriteString(p.Goodput.Describe())
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "module\trate/s\tin time\tlate\tdropped\trefused\twithdrawn\tmean batch\tp50\tp99\tmax\tbudget\t")
	for _, m := range p.Modules {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", m.Module, number(m.Rate), m.Completed, m.Late, m.Dropped,
			m.Refused, m.Withdrawn, number(m.MeanBatch), spell(m.Latency.P50), spell(m.Latency.P99), spell(m.Latency.Max), spell(m.Budget))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// mostListed is how many devices are listed one by one.
const mostListed = 16

func (r Result) describeDevices() string {
	var b strings.Builder
	if len(r.Devices) > mostListed {
		low, high, sum := 1.0, 0.0, 0.0
		for _, d := range r.Devices {
			low, high, sum = min(low, d.Utilisation), max(high, d.Utilisation), sum+d.Utilisation
		}
		fmt.Fprintf(&b, "%d devices, %s of their time used, from %s to %s\n", len(r.Devices), percent(sum/float64(len(r.Devices))), percent(low), percent(high))
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "device\tused\tbatches\t")
	for _, d := range r.Devices {
		fmt.Fprintf(w, "%s\t%s\t%d\t\n", d.Device, percent(d.Utilisation), d.Batches)
	}
	_ = w.Flush()
	return b.String()
}

// Describe says what was found, and how sure that is.
func (g Goodput) Describe() string {
	if g.Rate == 0 {
		return fmt.Sprintf("goodput: none; even at %s/s only %s are in time\n", number(g.Above.Rate), percent(g.Above.Attainment))
	}
	text := fmt.Sprintf("goodput %s/s, where %s are in time (%s to %s)", number(g.Rate), percent(g.At.Attainment), percent(g.At.Interval.Low), percent(g.At.Interval.High))
	if g.Above.Rate > 0 {
		text += fmt.Sprintf("; at %s/s %s are", number(g.Above.Rate), percent(g.Above.Attainment))
	}
	if g.Seeds > 1 {
		text += fmt.Sprintf("; %d seeds", g.Seeds)
	}
	return text + "\n"
}

func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

func percent(x float64) string { return fmt.Sprintf("%.4g %%", 100*x) }

func number(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// spell writes a duration in milliseconds.
func spell(d time.Duration) string {
	return fmt.Sprintf("%.4g ms", float64(d)/float64(time.Millisecond))
}
