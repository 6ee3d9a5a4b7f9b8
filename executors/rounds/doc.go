// Package rounds says how a measurement of a module goes, and what becomes of its
// runs. It knows batch sizes and durations only; package executors says how
// instances are loaded and run (Host.Measure).
//
// For one number of batches at a time, a Measurement loads instances for one batch
// size after the other, to know their memory, and then measures all sizes on those
// of the largest, in rounds: every size has its turn in each, so that what disturbs
// the machine for a while disturbs all sizes alike. It goes on until every size has
// enough runs (Limits) and half of the rounds were calm, or patience ends:
//
//	load 1 ── load 4 ── load 16 ── round: 1 4 16 ── round: 16 4 1 ── ... ── points
//
// Durations are taken from the calm rounds, or the calmest half; spreads from all.
// What is known at any time is Measured: told after every round, and enough to go
// on from when the measurement was interrupted.
package rounds
