// Package sizing plans pipelines for the arrivals that they declare.
//
// The policies of package plan size for evenly paced requests. Where a pipeline
// declares random arrivals and an attainment, the plan for even requests is
// simulated with the dispatcher that will serve it, and capacity is added until
// the simulation attains what is asked for, with 95 % confidence: plans are made
// for more than the rate that comes, and with budgets that leave time to wait for
// a device. The cheapest that attains the target is the result, and says what it
// is expected to attain.
//
// It also says what the headroom of a plan costs: the difference to a plan
// without.
package sizing
