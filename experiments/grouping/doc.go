// Package grouping measures what applications that share a model save by sharing
// functions, by every policy (HarmonyBatch): on drawn inputs, over two hours of
// rates that change every minute, and how true the model of costs is where
// arrivals are random.
package grouping
