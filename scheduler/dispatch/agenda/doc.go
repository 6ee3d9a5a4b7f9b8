// Package agenda keeps what is to come, by time: the instants at which models
// must be looked at, executors become free, or simulated events happen.
//
// Everything that can be on an agenda has a small whole number, so that it can
// be found, moved and taken out in O(log n), and nothing is allocated once
// there is room for all numbers. What comes at the same time is ordered by
// number: the same history always yields the same order, which simulations and
// transcripts rely on.
package agenda
