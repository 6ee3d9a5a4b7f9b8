// Package system puts the roles of Harpagon together in one process, on a state
// folder: it is what package local and the command line run. It does not know
// how Temporal is started; Options.Temporal says so, and package local gives
// the embedded server, in a process of its own. So programs and tests that only speak to a running
// system do not link that server.
//
// The state folder holds everything that survives: a version, the server's
// database, measured profiles, logs, and, while the system runs, a lock and the
// addresses at which it answers. A system that starts on the folder of another
// that was stopped, or killed, goes on where that one was.
package system
