// Package factory makes dispatch policies from data. Whoever drives one, the gateway, the
// simulator or a replay, makes it here from the same Spec, so that the policy that is simulated
// is the one that runs, and a recording can say which one ran.
//
//	spec.go    which policy, from which options
//	module.go  the Spec for a module of a plan, by the name that a declaration gives
//
// # Models of clusters
//
// SharedModels says how the requests of a cluster are told apart: every module of
// every pipeline is a class of its own to the one policy that dispatches them. The
// simulator and whoever serves make them by the same call, so that what is simulated
// is what runs.
package factory
