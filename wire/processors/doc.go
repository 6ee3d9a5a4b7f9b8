// Package processors keeps the Go runtime of a process on as few processors as its work
// needs, and on more as soon as it needs them.
//
// By default the runtime takes every processor of the machine. What one goroutine hands to
// another then wakes a thread on another processor where that is idle, which costs more than
// the work of most steps of a small request, and on a machine whose processors also run
// engines and other processes, takes the time from those. On two virtual processors a request
// through a fleet's processes took 0.75 of the time at the median and 0.82 of the processor
// time when each process had one processor.
//
// Follow measures and sets; Limit decides. Most is for whoever wants to know what there is,
// since runtime.GOMAXPROCS(0) only says what is taken just now; Used is the processor time of
// the process.
package processors
