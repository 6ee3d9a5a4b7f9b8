package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// Devices collects the readings of devices, calling read at every scrape. A value that is not
// known has no sample. Register it with a Metrics' registry where the devices are those of the
// same process, or serve it by itself.
func Devices(read func() []devices.Reading) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("harpagon_"+name, help, append([]string{"host", "device", "hardware"}, labels...), nil)
	}
	return &deviceCollector{
		read:        read,
		busy:        describe("device_busy_seconds_total", "Time in which batches ran, those side by side counted each."),
		batches:     describe("device_batches_total", "Batches that ran."),
		items:       describe("device_items_total", "Requests in the batches that ran."),
		waiting:     describe("device_batches_waiting", "Batches that wait for the device."),
		executors:   describe("device_executors", "Executors on the device."),
		held:        describe("device_executor_memory_bytes", "Memory that executors hold, as far as they report it."),
		capacity:    describe("device_memory_offered_bytes", "Memory that the device offers."),
		memory:      describe("gpu_memory_bytes", "Memory of the GPU."),
		used:        describe("gpu_memory_used_bytes", "Memory of the GPU that is in use."),
		utilisation: describe("gpu_utilisation_ratio", "Part of the last moments in which the GPU computed."),
		temperature: describe("gpu_temperature_celsius", "Temperature of the GPU."),
		processes:   describe("gpu_processes", "Processes that compute on the GPU."),
		divided:     describe("gpu_divided", "1 for a GPU that is divided into parts (MIG)."),
	}
}

type deviceCollector struct {
	read func() []devices.Reading

	busy, batches, items, waiting, executors, held, capacity   *prometheus.Desc
	memory, used, utilisation, temperature, processes, divided *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c *deviceCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.busy, c.batches, c.items, c.waiting, c.executors, c.held, c.capacity,
		c.memory, c.used, c.utilisation, c.temperature, c.processes, c.divided,
	} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *deviceCollector) Collect(to chan<- prometheus.Metric) {
	for _, r := range c.read() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			to <- prometheus.MustNewConstMetric(d, kind, v, r.Host, r.Device, r.Hardware)
		}
		send(c.busy, prometheus.CounterValue, r.Busy.Seconds())
		send(c.batches, prometheus.CounterValue, float64(r.Batches))
		send(c.items, prometheus.CounterValue, float64(r.Items))
		send(c.waiting, prometheus.GaugeValue, float64(r.Waiting))
		send(c.executors, prometheus.GaugeValue, float64(r.Executors))
		send(c.held, prometheus.GaugeValue, float64(r.Memory))
		if r.Capacity > 0 {
			send(c.capacity, prometheus.GaugeValue, float64(r.Capacity))
		}
		if r.GPU != nil {
			c.gpu(r.GPU, func(d *prometheus.Desc, v float64) { send(d, prometheus.GaugeValue, v) })
		}
	}
}

func (c *deviceCollector) gpu(g *devices.GPU, send func(*prometheus.Desc, float64)) {
	send(c.memory, float64(g.Memory))
	send(c.used, float64(g.Used))
	send(c.processes, float64(len(g.Processes)))
	if g.Utilisation != devices.Unknown {
		send(c.utilisation, g.Utilisation)
	}
	if g.Temperature != devices.Unknown {
		send(c.temperature, float64(g.Temperature))
	}
	divided := 0.0
	if g.Divided {
		divided = 1
	}
	send(c.divided, divided)
}

// Services collects the plans of the services that a gateway serves, calling read at every
// scrape, so that rules can compare promises with measurements. A value that a kind of service
// lacks has no sample.
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

// Promises collects since when, and why, plans break their promise, calling read at every
// scrape for these by pipeline. Plans that keep it have no samples.
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

// DevicesWanted collects how many devices of each kind of hardware services hold and request,
// calling read at every scrape.
func DevicesWanted(read func() map[string]int) prometheus.Collector {
	return wanted{read, prometheus.NewDesc("harpagon_devices_wanted",
		"Devices that services hold and request, of hardware that hosts are made of.", []string{"hardware"}, nil)}
}

type wanted struct {
	read    func() map[string]int
	devices *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c wanted) Describe(to chan<- *prometheus.Desc) { to <- c.devices }

// Collect is part of prometheus.Collector.
func (c wanted) Collect(to chan<- prometheus.Metric) {
	for hardware, n := range c.read() {
		to <- prometheus.MustNewConstMetric(c.devices, prometheus.GaugeValue, float64(n), hardware)
	}
}

// Trials compares generations that are tried on a share of requests with those that serve,
// calling read at every scrape for these by service. There are no samples of a service where
// nothing is tried, and each trial begins at 0.
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

// Streams collects how many streams of pipelines are open, and what share of their frames is in
// time, of each kind, calling read at every scrape. There are no samples of pipelines without any.
func Streams(read func() map[string]admission.StreamShares) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("harpagon_stream"+name, help, append([]string{"pipeline", "kind"}, labels...), nil)
	}
	return &streamCollector{
		read:       read,
		open:       describe("s_open", "Streams that are open."),
		planned:    describe("s_planned", "Streams that the pipeline is planned for."),
		attainment: describe("_attainment_ratio", "Share in time of a stream's last frames within its rate, of the worst stream and of the median.", "of"),
	}
}

type streamCollector struct {
	read                      func() map[string]admission.StreamShares
	open, planned, attainment *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c *streamCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.open, c.planned, c.attainment} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *streamCollector) Collect(to chan<- prometheus.Metric) {
	one := func(name string, s admission.StreamShares) {
		send := func(desc *prometheus.Desc, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{name, s.Kind}, labels...)...)
		}
		send(c.open, float64(s.Open))
		send(c.planned, float64(s.Most))
		if s.Open > 0 {
			send(c.attainment, s.Worst, "worst")
			send(c.attainment, s.Median, "median")
		}
	}
	for name, s := range c.read() {
		for _, of := range s.Each() {
			one(name, of)
		}
	}
}
