package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// Promises collects since when plans have not kept what they promise, and why, from what read
// says at the time by pipeline. There are no samples of those that do.
func Promises(read func() map[string]autoscale.Broken) prometheus.Collector {
	return promises{read, prometheus.NewDesc("harpagon_service_promise_broken_seconds",
		"For how long too few requests have been in time, by reason: rate, fails, refused, late.", []string{"pipeline", "module", "reason"}, nil)}
}

type promises struct {
	read func() map[string]autoscale.Broken
	held *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c promises) Describe(to chan<- *prometheus.Desc) { to <- c.held }

// Collect is part of prometheus.Collector.
func (c promises) Collect(to chan<- prometheus.Metric) {
	for pipeline, b := range c.read() {
		to <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, b.Held.Seconds(), pipeline, b.Module, b.Reason)
	}
}
