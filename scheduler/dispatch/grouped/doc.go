// Package grouped is the batching of HarmonyBatch (sections III-B and IV-C): applications that
// share a model wait in one queue per group, each for its own timeout at the longest.
package grouped
