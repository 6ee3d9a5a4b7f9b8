// Package embedded runs a real Temporal server, with its UI, inside the
// program: on one SQLite file, on the loopback interface, without anything to
// install or download.
//
// It is the only package that links go.temporal.io/server, which takes minutes
// to compile the first time and makes a program large. The build tag noserver
// leaves it out: Start then fails and says to set TEMPORAL_ADDRESS. Workers and
// gateways that talk to a Temporal server elsewhere are built that way.
package embedded
