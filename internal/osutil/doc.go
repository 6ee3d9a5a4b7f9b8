// Package osutil is what other packages need of the operating system beyond Go's library:
// processors, short sleeps, files that are written whole, files that others name, memory
// that processes share, and logs.
//
// # Processors
//
// FollowProcessors keeps the Go runtime of a process on as few processors as its work
// needs, and on more as soon as it needs them.
//
// By default the runtime takes every processor of the machine. What one goroutine hands to
// another then wakes a thread on another processor where that is idle, which costs more than
// the work of most steps of a small request, and on a machine whose processors also run
// engines and other processes, takes the time from those. On two virtual processors, without
// FollowProcessors a request through a process that serves takes 1.14, 1.33 and 1.38 times
// the processor time at 100, 500 and 1,500 requests a second, and as long at the median.
//
// FollowProcessors measures and sets; limit decides. MostProcessors is the number that
// exists, since runtime.GOMAXPROCS(0) is only what is taken at the moment; Cores is how
// many of these the quota of a container lets compute all the time; ProcessorTime is the
// processor time of the process.
//
// # Sleeping
//
// Sleep waits for times that are short beside the rounding of the runtime's timers.
//
// The Go runtime rounds timers up to about a millisecond on Linux when the process is
// otherwise idle, so there Sleep leaves the last two milliseconds to the kernel, and what is
// shorter than a sleep costs it waits for without sleeping. Measured on two x86-64 cores
// beside other load, it then returns 0.04 ms late at the median (time.Sleep: 1 ms late at
// 0.1 ms, 0.24 ms late at 20 ms, on idle ones); on a busy machine, as late as its threads
// wait. Elsewhere the precision is time.Sleep's.
//
// Sleep does not use virtual time: what is tested under testing/synctest takes the function
// that waits as an option, and is given SleepTimer.
//
// # Files
//
// ReplaceFile writes files whole or not at all: on a disk that is full, in a folder that
// may only be read and in a process that is killed, what was there before stays.
//
// # Logs
//
// Log keeps what is printed up to a bound.
//
// # Files that others name
//
// OpenFile and ReadFile open the files that declarations name, in one way: regular files
// only, up to a bound.
//
// The author of a declaration can have any file read on the machine that loads it, so none
// may exhaust its memory or keep it waiting.
//
// # Memory that processes share
//
// MemoryFile has no name, is passed on as a file, and goes with the last process that has it.
// NamedMemory is for those who open shared memory by its name.
package osutil
