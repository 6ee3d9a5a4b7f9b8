// Package metrics shows a gateway to Prometheus. It is an observer like any other; the gateway
// does not depend on it.
//
//	m := metrics.New()
//	g := gateway.New(gateway.Options{Observer: m.Observer()})
//	h := httpapi.New(g, httpapi.Options{Metrics: m.Handler()})
//
// Every metric is in docs/reference/metrics.md; a test compares. Rules and a dashboard
// that use them are in examples/monitoring.
package metrics

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

// Metrics collects what a gateway reports. Several gateways may share one.
type Metrics struct {
	served  func() map[string][]string // see Keep; nil keeps everything
	forgets sync.RWMutex               // held to read while a gauge is raised that is to be lowered again

	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	accepted   *prometheus.CounterVec
	ended      *prometheus.CounterVec
	inFlight   *prometheus.GaugeVec
	durations  *prometheus.HistogramVec
	stages     *prometheus.HistogramVec
	sizes      *prometheus.HistogramVec
	batches    *prometheus.HistogramVec
	failed     *prometheus.CounterVec
	executors  *prometheus.GaugeVec
	generation *prometheus.GaugeVec
	drops      *prometheus.CounterVec
	exceeded   *prometheus.CounterVec
	policies   *prometheus.GaugeVec

	callers, busy *prometheus.CounterVec // by named token

	calls, colds, again, billed, cost *prometheus.CounterVec // of functions
}

// New makes metrics with a registry of their own, which also holds those of
// the Go runtime and of the process.
func New() *Metrics {
	seconds := prometheus.ExponentialBuckets(50e-6, 2, 19) // to 13 s
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "harpagon", Name: name, Help: help, Buckets: buckets,
			// Native buckets a tenth wide hold any objective, for a Prometheus that reads native histograms.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "harpagon", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "harpagon", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		requests:   counter("requests_total", "Requests by how they ended; invalid ones are mistakes of their callers, and count in no attainment.", "pipeline", "outcome"),
		accepted:   counter("requests_accepted_total", "Requests accepted: as many as have ended and are in flight.", "pipeline"),
		ended:      counter("requests_ended_total", "Requests that were accepted and have ended.", "pipeline"),
		inFlight:   gauge("requests_in_flight", "Requests accepted and not yet ended.", "pipeline"),
		durations:  histogram("request_duration_seconds", "Time of answered requests from arrival to answer.", seconds, "pipeline"),
		stages:     histogram("stage_duration_seconds", "Time of answered requests by module and part.", seconds, "pipeline", "module", "part"),
		sizes:      histogram("batch_size", "Requests in a batch.", prometheus.ExponentialBuckets(1, 2, 9), "pipeline", "module"),
		batches:    histogram("batch_duration_seconds", "Time of a batch in the engine.", seconds, "pipeline", "module"),
		failed:     counter("batches_failed_total", "Batches without an answer.", "pipeline", "module", "code"),
		executors:  gauge("executors", "Executors that are attached.", "pipeline", "module"),
		drops:      counter("module_drops_total", "Requests that a module gave up, by reason.", "pipeline", "module", "reason"),
		exceeded:   counter("module_exceeded_total", "Items that were split into more than the fan-out of the module declares at most.", "pipeline", "module"),
		policies:   gauge("dispatch_policy", "1 for the dispatch policy of a module.", "pipeline", "module", "policy"),
		generation: gauge("generation", "Generation of the deployment that serves.", "pipeline"),
	}
	m.callers = counter("caller_requests_total", "Requests by the token that they came with and by how they ended; only of named tokens.", "caller", "pipeline", "outcome")
	m.busy = counter("caller_busy_seconds_total", "Device time of answered requests by the token that they came with, each its part of its batches; only of named tokens.", "caller", "pipeline")
	m.registry.MustRegister(m.callers, m.busy)
	m.calls = counter("function_calls_total", "Calls of functions by what came of them.", "function", "group", "result")
	m.colds = counter("function_cold_starts_total", "Calls of functions after a cold start.", "function", "group")
	m.again = counter("function_retries_total", "Calls of functions that were sent once more.", "function", "group")
	m.billed = counter("function_billed_seconds_total", "Time that providers bill.", "function", "group")
	m.cost = counter("function_cost_total", "Money that providers bill.", "function", "group")
	m.registry.MustRegister(m.calls, m.colds, m.again, m.billed, m.cost)
	m.registry.MustRegister(m.requests, m.accepted, m.ended, m.inFlight, m.durations, m.stages, m.sizes, m.batches, m.failed, m.executors, m.generation, m.drops, m.exceeded, m.policies,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry is where a program may register metrics of its own.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{})
}

// Observer is what a gateway reports to.
func (m *Metrics) Observer() gateway.Observer {
	return gateway.Observer{
		RequestBegin: func(i gateway.RequestInfo) {
			m.forgets.RLock()
			defer m.forgets.RUnlock()
			m.accepted.WithLabelValues(i.Pipeline).Inc()
			m.inFlight.WithLabelValues(i.Pipeline).Inc()
		},
		RequestEnd: m.requestEnd,
		BatchEnd:   m.batchEnd,
		Attached:   func(i gateway.ExecutorInfo) { m.attached(i, 1) },
		Detached:   func(i gateway.ExecutorInfo) { m.attached(i, -1) },
		Dropped:    func(i gateway.DropInfo) { m.drops.WithLabelValues(i.Pipeline, i.Module, i.Reason).Inc() },
		Exceeded:   func(i gateway.ExceedInfo) { m.exceeded.WithLabelValues(i.Pipeline, i.Module).Inc() },
		Installed:  m.installed,
		CallEnd:    m.callEnd,
	}
}

func (m *Metrics) callEnd(i gateway.CallInfo) {
	result := i.Kind
	if result == "" {
		result = "answered"
	}
	m.calls.WithLabelValues(i.Function, i.Group, result).Inc()
	m.again.WithLabelValues(i.Function, i.Group).Add(float64(max(0, i.Again)))
	if i.Cold {
		m.colds.WithLabelValues(i.Function, i.Group).Inc()
	}
	if i.Ran {
		m.billed.WithLabelValues(i.Function, i.Group).Add(i.Billed.Seconds())
		m.cost.WithLabelValues(i.Function, i.Group).Add(i.Cost)
	}
}

func (m *Metrics) installed(i gateway.InstallInfo) {
	m.generation.WithLabelValues(i.Pipeline).Set(float64(i.Generation))
	m.policies.DeletePartialMatch(prometheus.Labels{"pipeline": i.Pipeline})
	for module, policy := range i.Policies {
		m.policies.WithLabelValues(i.Pipeline, module, policy).Set(1)
	}
}

func (m *Metrics) attached(i gateway.ExecutorInfo, n float64) {
	m.forgets.RLock()
	defer m.forgets.RUnlock()
	m.executors.WithLabelValues(i.Pipeline, i.Module).Add(n)
}

func (m *Metrics) requestEnd(i gateway.RequestInfo) {
	m.forgets.RLock()
	defer m.forgets.RUnlock()
	m.requests.WithLabelValues(i.Pipeline, i.Outcome.String()).Inc()
	if !i.Unaccepted { // a dispatcher elsewhere refuses what the gateway has accepted
		m.ended.WithLabelValues(i.Pipeline).Inc()
		m.inFlight.WithLabelValues(i.Pipeline).Dec()
	}
	if i.Caller != "" {
		m.callers.WithLabelValues(i.Caller, i.Pipeline, i.Outcome.String()).Inc()
		m.busy.WithLabelValues(i.Caller, i.Pipeline).Add(deviceTime(i.Stages).Seconds())
	}
	if i.Err != nil {
		return
	}
	m.durations.WithLabelValues(i.Pipeline).Observe(i.Elapsed.Seconds())
	for _, s := range i.Stages {
		m.stage(i.Pipeline, s)
	}
}

// deviceTime is what a request took of devices: of each module, its items' part of the
// batch that they were in last.
func deviceTime(stages []wire.Stage) (sum time.Duration) {
	for _, s := range stages {
		sum += s.Compute * time.Duration(s.Items) / time.Duration(max(1, s.Batch))
	}
	return sum
}

// stage leaves out modules that had no item.
func (m *Metrics) stage(pipeline string, s wire.Stage) {
	if s.Items == 0 {
		return
	}
	m.stages.WithLabelValues(pipeline, s.Module, "queue").Observe(s.Queue.Seconds())
	m.stages.WithLabelValues(pipeline, s.Module, "wait").Observe(s.Wait.Seconds())
	m.stages.WithLabelValues(pipeline, s.Module, "compute").Observe(s.Compute.Seconds())
	m.stages.WithLabelValues(pipeline, s.Module, "transfer").Observe(s.Transfer.Seconds())
}

func (m *Metrics) batchEnd(i gateway.BatchInfo) {
	if i.Err != nil {
		m.failed.WithLabelValues(i.Pipeline, i.Module, string(i.Err.Code)).Inc()
		return
	}
	m.sizes.WithLabelValues(i.Pipeline, i.Module).Observe(float64(i.Size))
	m.batches.WithLabelValues(i.Pipeline, i.Module).Observe(i.Compute.Seconds())
}

// Keep deletes, at every scrape, the series of what is no longer served. read returns the
// served modules by pipeline; no modules mean all of them. Series of what is still under way or
// attached stay until it ends.
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

// forget deletes the series of what is gone, and reports whether there were any.
func (m *Metrics) forget(families []*dto.MetricFamily) (any bool) {
	m.forgets.Lock()
	defer m.forgets.Unlock()
	served := m.served()
	whole := []vector{m.requests, m.accepted, m.ended, m.inFlight, m.durations, m.callers, m.busy}
	parts := []vector{m.stages, m.sizes, m.batches, m.failed, m.drops, m.exceeded, m.policies}
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
