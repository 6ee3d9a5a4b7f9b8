// Package admission decides on arrival which requests can still be answered in
// time. Beyond the capacity of its devices a service that takes in every request
// works on many that end late: the queues of all modules fill until each request
// waits for as long as it may, and what one module has computed the next gives
// up. A request that is refused when it comes costs nothing, and its caller
// knows at once.
//
// # The rule
//
// Every device has the work before it of the requests that are under way: for
// each item that waits at a module, the time that it takes there and the time
// that its results will take at the modules below, each at the duration per item
// of a full batch. A request is admitted if on every device that it needs
//
//	work due no later than its deadline + its own work + lead <= deadline - now
//
// where lead is what passes from the end of its last batch on that device to its
// answer. This is the processor-demand test of earliest deadline first for one new
// job, with requests of other services counted as far as their deadlines come first.
// Batches that run count with the time that they have left, and a device that nothing
// has come to yet idles until the first of what is above has. Each of these is the
// least that must pass, so that the rule refuses nobody who would be in time: that
// is left to what is kept in reserve.
//
// While the promise of a plan holds, no request is tested: the proof is the test.
//
// Of the time until the deadline, beyond the lead, a part is kept in reserve, as much as it takes
// that few of those taken in are late after all: threads that are not punctual,
// bursts that leave batches small, durations that vary. Where more come than the
// devices can do, more is kept the more device time goes to requests that are not in time
// after all, and up to half of the last batch besides: who is refused in their place costs
// nothing, and those taken in fill the devices.
// A queue that does not empty is shortened to what keeps batches full (see device_load.go).
//
// What no rule can know on arrival is how many items a request will have. Fits asks again
// once a module has split it, before the first of them runs.
//
// Durations are those of the profile at the pace at which batches have lately
// run, so that a machine that does other work too takes in less. A service of
// which nothing is under way takes in any request; without one nothing would be
// learned. So does one with fewer requests under way than devices at every module,
// whatever is in reserve: what idles costs nothing.
package admission
