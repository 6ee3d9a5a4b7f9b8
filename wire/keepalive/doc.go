// Package keepalive notices that the other side of a connection is gone without having
// said so: because its host has no power, a cable is cut, or its process was stopped. A
// process that dies needs none of this: its connections break at once.
//
// Whatever bytes come over a connection are a sign of life. Where none come, the other
// side is asked; when it stays silent all the same, for Patience, the connection is to
// be given up. A side that is busy with an engine, or sends a message of many megabytes
// over a slow network, is not silent: asking and answering are left to goroutines of
// their own, and bytes count, not messages.
//
// Silence is counted in looks, not in time by the clock: a process that was stopped
// itself, and goes on, looks once and finds what has come meanwhile before it gives
// anybody up.
package keepalive
