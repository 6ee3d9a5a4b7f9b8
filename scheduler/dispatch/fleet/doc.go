// Package fleet keeps the executors that a policy may use: which of them are up, which can take
// a batch now, and when those that work will be free.
package fleet
