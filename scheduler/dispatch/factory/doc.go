// Package factory makes dispatch policies from data. Whoever drives one, the gateway, the
// simulator or a replay, makes it here from the same Spec, so that the policy that is simulated
// is the one that runs, and a recording can say which one ran.
//
//	spec.go    which policy, from which options
//	module.go  the Spec for a module of a plan, by the name that a declaration gives
package factory
