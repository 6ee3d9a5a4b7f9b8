// Package whole plans on whole devices, each for one module, at the least cost of a
// sound plan: what cost model whole asks for, and what modules that share no device
// run on under cost model shared.
//
// module.go holds the theorem, kinds.go and enumerate.go the devices to choose from,
// mixture.go what two kinds can do together and refute.go what they cannot;
// search.go searches the budgets and idlest.go leaves devices that cost the same idle.
package whole
