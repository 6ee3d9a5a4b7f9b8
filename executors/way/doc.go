// Package way puts what computes queries at the far end of a stream, as an instance of
// a pool is for its gateway: a query is cut into its items there, sent, computed, sent
// back and put together. Durations that are measured so have the way in them, for it is
// part of what the objective of a query covers.
package way
