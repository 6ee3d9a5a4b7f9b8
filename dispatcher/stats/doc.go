// Package stats counts what a gateway sees: requests by outcome and latency, items
// and batches of modules, and how long batches take. Rates and latencies look back
// on the last seconds, a figure for each (ring.go); totals count from the beginning.
package stats
