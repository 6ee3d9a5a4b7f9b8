package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harpagon/harpagon/executors/devices"
)

// Devices collects how devices are doing, from what read says at the time. What
// is not known has no sample. Register it with a Metrics' registry where the
// devices are those of the same process, or serve it by itself.
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
		held:        describe("device_executor_memory_bytes", "Memory that executors hold, as far as they know."),
		capacity:    describe("device_memory_offered_bytes", "Memory that the device offers."),
		memory:      describe("gpu_memory_bytes", "Memory of the GPU."),
		used:        describe("gpu_memory_used_bytes", "Memory of the GPU that anybody uses."),
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
