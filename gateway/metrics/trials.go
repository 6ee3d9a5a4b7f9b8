package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harpagon/harpagon/scheduler/rollout"
)

// Trials collects how generations fare that are tried on a share of requests, beside
// those that serve, from what read says at the time by the name of the service. There are
// no samples of a service where nothing is tried, and each trial begins at 0.
func Trials(read func() map[string]rollout.Seen) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("harpagon_trial_"+name, help, append([]string{"pipeline"}, labels...), nil)
	}
	return &trialCollector{
		read:       read,
		generation: describe("generation", "Generation that is tried on a share of requests."),
		requests:   describe("requests", "Requests that ended since the trial began, at the generation that is tried and at the one that serves.", "of"),
		attainment: describe("attainment_ratio", "Share of these that was answered in time.", "of"),
		compared:   describe("compared", "Answers of both generations to the same request that were compared (shadow)."),
		different:  describe("different", "Of these, the ones that differed."),
	}
}

type trialCollector struct {
	read func() map[string]rollout.Seen

	generation, requests, attainment, compared, different *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c *trialCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.generation, c.requests, c.attainment, c.compared, c.different} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *trialCollector) Collect(to chan<- prometheus.Metric) {
	for name, seen := range c.read() {
		send := func(desc *prometheus.Desc, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
		}
		send(c.generation, float64(seen.Generation))
		for of, t := range map[string]rollout.Tally{"tried": seen.Canary, "serving": seen.Stable} {
			send(c.requests, float64(t.Requests), of)
			send(c.attainment, t.Attainment(), of)
		}
		send(c.compared, float64(seen.Compared))
		send(c.different, float64(seen.Different))
	}
}
