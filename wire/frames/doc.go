// Package frames carries messages over a connection, for protocols of Harpagon's own
// (packages queue and attachtcp). A frame is its length as an unsigned varint and so many
// bytes. Frames follow one another without gaps, so that many go in one write.
//
// A message wakes nobody but its receiver: it is written by the goroutine that has it,
// where nobody else writes and the kernel has room for it (Prompt), and it is read by the
// goroutine that waits for it. Neither side has goroutines of its own but while more is to
// be written than the kernel takes.
package frames
