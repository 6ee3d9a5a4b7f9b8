// Package trial draws queries of different sizes, plays them against a pool of
// instances with package simulate, and finds the highest rate that the pool
// sustains.
//
// What distributes the queries is a dispatch.Policy: policy matching as it runs
// in the gateway, or one of package baseline, which the Kairos paper compares
// with (section 7). The oracle of the paper knows all queries beforehand and is no
// policy; it is the yardstick.
//
// The same seed draws the same queries for every policy, configuration and
// rate: a higher rate only brings them closer together. So policies differ by
// what they decide, not by luck.
package trial
