package simulate

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
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
	fmt.Fprintf(&b, "%s: %d requests at %s/s, %s, dispatch %s, seed %d\n", p.Pipeline, p.Requests, quantity.Number(p.Rate), p.Arrivals, p.Dispatch, p.Seed)
	fmt.Fprintf(&b, "%s in time (%s to %s with %.0f %% confidence): %d completed, %d late, %d dropped, %d refused\n",
		quantity.Percent(p.Attainment), quantity.Percent(p.Interval.Low), quantity.Percent(p.Interval.High), 100*p.Interval.Confidence, p.Completed, p.Late, p.Dropped, p.Refused)
	fmt.Fprintf(&b, "latency p50 %s, p99 %s, max %s of %s; mean batch %s on %s, %s of the time used\n",
		quantity.Duration(p.Latency.P50), quantity.Duration(p.Latency.P99), quantity.Duration(p.Latency.Max), quantity.Duration(p.SLO), quantity.Number(p.MeanBatch), quantity.Count(p.Devices, "device"), quantity.Percent(p.Utilisation))
	if p.Goodput != nil {
		b.WriteString(p.Goodput.Describe())
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "module\trate/s\tin time\tlate\tdropped\trefused\twithdrawn\tmean batch\tp50\tp99\tmax\tbudget\t")
	for _, m := range p.Modules {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", m.Module, quantity.Number(m.Rate), m.Completed, m.Late, m.Dropped,
			m.Refused, m.Withdrawn, quantity.Number(m.MeanBatch), quantity.Duration(m.Latency.P50), quantity.Duration(m.Latency.P99), quantity.Duration(m.Latency.Max), quantity.Duration(m.Budget))
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
		fmt.Fprintf(&b, "%d devices, %s of their time used, from %s to %s\n", len(r.Devices), quantity.Percent(sum/float64(len(r.Devices))), quantity.Percent(low), quantity.Percent(high))
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "device\tused\tbatches\t")
	for _, d := range r.Devices {
		fmt.Fprintf(w, "%s\t%s\t%d\t\n", d.Device, quantity.Percent(d.Utilisation), d.Batches)
	}
	_ = w.Flush()
	return b.String()
}

// Describe says what was found, and how sure that is.
func (g Goodput) Describe() string {
	above := g.Above.Worst()
	if g.Rate == 0 {
		return fmt.Sprintf("goodput: none; even at %s/s only %s are in time%s\n", quantity.Number(g.Above.Rate), quantity.Percent(above.Attainment), g.Above.whose())
	}
	at := g.At.Worst()
	text := fmt.Sprintf("goodput %s/s, where %s are in time (%s to %s)%s",
		quantity.Number(g.Rate), quantity.Percent(at.Attainment), quantity.Percent(at.Interval.Low), quantity.Percent(at.Interval.High), g.At.whose())
	if g.Above.Rate > 0 {
		text += fmt.Sprintf("; at %s/s %s are%s", quantity.Number(g.Above.Rate), quantity.Percent(above.Attainment), g.Above.whose())
	}
	if g.Seeds > 1 {
		text += fmt.Sprintf("; %d seeds", g.Seeds)
	}
	return text + "\n"
}

// whose is the pipeline that attains least, where there are several.
func (p Probe) whose() string {
	if len(p.Models) < 2 {
		return ""
	}
	return fmt.Sprintf(" of %s, the least of %d", p.Worst().Pipeline, len(p.Models))
}
