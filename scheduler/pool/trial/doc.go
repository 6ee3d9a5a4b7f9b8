// Package trial draws queries of different sizes, plays them against a pool of
// instances with package simulate, and finds the highest rate that the pool
// sustains.
//
// What distributes the queries is a dispatch.Policy: policy matching as it runs
// in the gateway, or one of the baselines that the Kairos paper compares with
// (section 7): Ribbon, the threshold of DeepRecSys, and a controller after
// Clockwork. The oracle of the paper knows all queries beforehand and is no
// policy; it is the yardstick.
//
// All policies drop a query once no instance can finish it in time. The papers'
// baselines would serve it late; dropping it is an advantage to them.
//
// The same seed draws the same queries for every policy, configuration and
// rate: a higher rate only brings them closer together. So policies differ by
// what they decide, not by luck.
package trial
