// Package measure holds what policies measure of the world while they run: the rate at which
// requests come (Meter) and how long batches take in terms of their profile (Pace).
package measure
