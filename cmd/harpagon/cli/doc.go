// Package cli is the command line: it reads flags, calls one entry point of a
// room below, and prints what comes back as text or as JSON. It decides
// nothing, so everything that it can do, a Go program can do too.
//
// A command is made by a function newXCommand in the file of its name, which gets
// the outside world as one value, Deps, and is listed in root.go under the stage
// of a user's journey that it belongs to. A command returns its error; Run prints
// it once and turns it into the exit code. Results go to standard output,
// everything else to standard error.
package cli
