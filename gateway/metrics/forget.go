package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Keep has the series of what is gone forgotten whenever they are asked for: read says what is
// served, the modules by pipeline; none of a pipeline are all. What is still under way, or
// attached, is told of until it has ended.
func (m *Metrics) Keep(read func() map[string][]string) { m.served = read }

// gather collects what is not gone.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	if err != nil || m.served == nil || !m.forget(families) {
		return families, err
	}
	return m.registry.Gather()
}

// vector is what all kinds of metrics with labels have.
type vector interface {
	DeletePartialMatch(prometheus.Labels) int
}

// forget deletes the series of what is gone, and says whether there were any.
func (m *Metrics) forget(families []*dto.MetricFamily) (any bool) {
	m.forgets.Lock()
	defer m.forgets.Unlock()
	served := m.served()
	whole := []vector{m.requests, m.accepted, m.ended, m.inFlight, m.durations, m.callers, m.busy}
	parts := []vector{m.stages, m.sizes, m.batches, m.failed, m.drops, m.policies}
	functions := []vector{m.calls, m.colds, m.again, m.billed, m.cost}
	drop := func(from []vector, labels prometheus.Labels) {
		for _, v := range from {
			any = v.DeletePartialMatch(labels) > 0 || any
		}
	}
	for _, f := range families {
		for _, one := range f.Metric {
			labels := make(prometheus.Labels, len(one.Label))
			for _, l := range one.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if function, ok := labels["function"]; ok {
				if _, serves := served[function]; !serves {
					drop(functions, prometheus.Labels{"function": function})
				}
				continue
			}
			pipeline, module := labels["pipeline"], labels["module"]
			modules, serves := served[pipeline]
			switch {
			case pipeline == "" || serves && (module == "" || len(modules) == 0 || slices.Contains(modules, module)):
			case module != "":
				at := prometheus.Labels{"pipeline": pipeline, "module": module}
				drop(parts, at)
				if value(m.executors.With(at)) <= 0 {
					drop([]vector{m.executors}, at)
				}
			case value(m.inFlight.WithLabelValues(pipeline)) <= 0:
				drop(append(whole, m.generation), prometheus.Labels{"pipeline": pipeline})
			}
		}
	}
	return any
}

func value(g prometheus.Gauge) float64 {
	var m dto.Metric
	if g.Write(&m) != nil {
		return 0
	}
	return m.GetGauge().GetValue()
}
