// Package metrics shows a gateway to Prometheus. It is an observer like any
// other; nothing in the gateway knows of it.
//
//	m := metrics.New()
//	g := gateway.New(gateway.Options{Observer: m.Observer()})
//	h := httpapi.New(g, httpapi.Options{Metrics: m.Handler()})
//
// Every metric stands in docs/metrics.md; a test compares. Rules and a dashboard
// that use them are in examples/monitoring.
package metrics
