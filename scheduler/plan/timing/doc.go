// Package timing turns a plan into what those who run it must know of time: how
// the dispatcher of a module is to collect its batches, and how long a batch of
// any size takes. The simulator and whoever serves requests read a plan with
// the same functions, so that what is simulated is what runs.
package timing
