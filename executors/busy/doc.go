// Package busy tells how much of the machine's processors others use: work that
// is neither this process nor one that it has started.
//
// Two readings make a Use:
//
//	before, err := busy.Read()
//	... measure something ...
//	after, err := busy.Read()
//	use := after.Since(before)
//	fmt.Println(use.Describe()) // others used 0.9 of 2 cores meanwhile
//
// On Linux the source is /proc: the processor time of all (/proc/stat, time that
// a hypervisor gave away counts as used) less that of this process and its
// descendants (/proc/PID/stat). The kernel counts in ticks of 10 ms, so that a
// Use of much less than a second says little. Elsewhere nothing is known, and
// Read says so with ErrUnknown.
package busy
