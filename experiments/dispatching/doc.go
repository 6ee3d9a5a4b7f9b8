// Package dispatching holds the settings in which Symphony (deferred batch
// scheduling) was evaluated, and measures policies in them.
//
// A Setting is a pool of equal devices, the networks that it serves, how their
// requests divide and how they crowd. Measure finds the goodput of a policy
// there: the highest rate at which each network has 99 % of its requests in
// time, by simulation. All lists the settings, by part:
//
//   - table4: two networks on eight devices, with the bound of executors that
//     take turns (equation 2 of the paper), with network delays, and at three
//     times the goodput;
//   - networks: every network of the paper's tables 5 and 6, alone on eight
//     devices;
//   - mixed: all of them together, equally or a few popular (Zipf);
//   - bursts: gamma gaps from shape 1 (Poisson) down to 0.05;
//   - devices: one to a thousand;
//   - models: a rising number of models on the same devices.
//
// Speed measures how fast a policy decides, and Frontends what uneven rates
// independent frontends cause, the paper's case for one scheduler (table 2). A changing
// workload (changing.go) is played as one cluster, and divided among sub-clusters (parted.go).
package dispatching
