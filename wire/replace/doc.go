// Package replace writes files whole or not at all: on a disk that is full, in a folder that
// may only be read and in a process that is killed, what was there before stays.
package replace
