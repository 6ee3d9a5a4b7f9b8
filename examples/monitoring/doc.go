// Package monitoring holds rules and a dashboard for Prometheus and Grafana, and
// tests them.
package monitoring
