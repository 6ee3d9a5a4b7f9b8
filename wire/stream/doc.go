// Package stream carries messages over a connection, for protocols of Harpagon's own
// (packages queue and attach). A frame is its length as an unsigned varint and so many
// bytes. Frames follow one another without gaps, so that many go in one write.
//
// A message wakes its receiver only: it is written by the goroutine that has it, where no other
// write is under way and the kernel has room for it (Prompt), and it is read by the goroutine
// that waits for it. Neither side has goroutines of its own but while more is to be written
// than the kernel takes.
//
// # Keepalive
//
// LiveConn notices that the other side of a connection is gone without having closed it:
// because its host has no power, a cable is cut, or its process was stopped. A process that
// dies needs none of this: its connections break at once.
//
// Whatever bytes come over a connection are a sign of life. Where none come, the other side is
// pinged; when it stays silent all the same, for Patience, the connection is to be given up. A
// side that is busy with an engine, or sends a message of many megabytes over a slow network,
// is not silent: pings and their answers have goroutines of their own, and bytes count, not
// messages.
//
// Silence is counted in looks, not in time by the clock: a process that was stopped
// itself, and goes on, looks once and finds what has come meanwhile before it gives a peer up.
package stream
