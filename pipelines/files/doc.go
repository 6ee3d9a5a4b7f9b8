// Package files reads what a declaration names beside models: profiles of modules
// and functions, sizes of queries, traces of arrivals, samples of inputs. What is
// wrong is told with the line and column of the file.
package files
