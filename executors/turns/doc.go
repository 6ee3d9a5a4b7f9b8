// Package turns says whose turn it is on a device, and how long turns take.
//
// A Device is given to its users one after the other, whoever is due first.
// Durations are how long batches have taken there, from which Lead tells when the
// next one is best called for.
package turns
