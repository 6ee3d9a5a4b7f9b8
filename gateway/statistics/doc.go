// Package statistics adds up what the statistics extension of the Open
// Inference Protocol tells of a model: requests answered and failed, the time
// that they waited and that engines computed, and batches by size. It is an
// observer of a gateway; package grpcapi and package httpapi answer from it.
package statistics
