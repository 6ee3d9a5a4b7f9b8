package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// Services collects what is planned of the services that a gateway serves, from
// what read says at the time, so that rules can set promises beside what happens.
// What a kind of service does not have has no sample.
func Services(read func() []placement.Deployment) prometheus.Collector {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("harpagon_service_"+name, help, []string{"pipeline"}, nil)
	}
	return &serviceCollector{
		read:      read,
		cost:      describe("cost_per_hour", "Money per hour of the plan that serves."),
		rate:      describe("planned_rate", "Requests per second that the plan is made for."),
		objective: describe("objective_seconds", "Latency objective, from a request's arrival to its answer."),
		target:    describe("target_ratio", "Share of requests that must meet the objective."),
		expected:  describe("expected_ratio", "Share that the plan expects to meet it at the arrivals that are declared."),
		sound:     describe("sound", "1 where the plan keeps every objective at even arrivals, else 0."),
	}
}

type serviceCollector struct {
	read func() []placement.Deployment

	cost, rate, objective, target, expected, sound *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c *serviceCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.cost, c.rate, c.objective, c.target, c.expected, c.sound} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *serviceCollector) Collect(to chan<- prometheus.Metric) {
	for _, d := range c.read() {
		send := func(desc *prometheus.Desc, v float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, d.Name())
		}
		if f := d.Function; f != nil {
			send(c.cost, f.Plan.CostPerHour())
			send(c.rate, f.Plan.Rate)
			send(c.sound, flag(f.Plan.Sound))
			continue
		}
		send(c.cost, d.Plan.Cost)
		if d.Pipeline.SLO > 0 {
			send(c.objective, d.Pipeline.SLO.Seconds())
		}
		if d.Pipeline.Rate > 0 {
			send(c.rate, d.Pipeline.Rate)
		}
		if target := d.Pipeline.Target(); target > 0 {
			send(c.target, target)
		}
		if e := d.Plan.Expected; e != nil {
			send(c.expected, e.Attainment)
		}
		if d.Pool == nil {
			send(c.sound, flag(d.Plan.Sound))
		}
	}
}

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
