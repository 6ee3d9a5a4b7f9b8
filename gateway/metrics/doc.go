// Package metrics shows a gateway to Prometheus. It is an observer like any
// other; nothing in the gateway knows of it.
//
//	m := metrics.New()
//	g := gateway.New(gateway.Options{Observer: m.Observer()})
//	h := httpapi.New(g, httpapi.Options{Metrics: m.Handler()})
//
// The metrics, all of them prefixed harpagon_:
//
//	requests_total{pipeline,outcome}            how requests ended
//	requests_in_flight{pipeline}                accepted and not yet ended
//	request_duration_seconds{pipeline}          of answered requests, end to end
//	stage_duration_seconds{pipeline,module,part}  queue, wait, compute, transfer
//	batch_size{pipeline,module}                 requests in a batch
//	batch_duration_seconds{pipeline,module}     in the engine
//	batches_failed_total{pipeline,module,code}
//	executors{pipeline,module}                  attached now
//	generation{pipeline}                        of the deployment that serves
package metrics
