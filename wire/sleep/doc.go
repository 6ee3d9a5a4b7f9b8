// Package sleep waits for times that are short beside the rounding of the runtime's timers.
//
// The Go runtime rounds timers up to about a millisecond on Linux when the process is
// otherwise idle, so there For leaves the last two milliseconds to the kernel, and what is
// shorter than a sleep costs it waits for without sleeping. Measured on two x86-64 cores
// beside other load, it then returns 0.04 ms late at the median (time.Sleep: 1 ms late at
// 0.1 ms, 0.24 ms late at 20 ms, on idle ones); on a busy machine, as late as its threads
// wait. Elsewhere the precision is time.Sleep's.
//
// For does not know virtual time: what is tested under testing/synctest takes the function
// that waits as an option, and is given Timer.
package sleep
