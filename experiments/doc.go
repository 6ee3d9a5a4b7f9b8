// Package experiments holds every figure and table of the papers that Harpagon
// builds on, and of its own docs. Each sub-package measures one subject:
//
//	planning     the policies of planning on drawn workloads
//	dispatching  the goodput of shared pools, in the settings of Symphony
//	overload     goodput beyond the planned rate
//	simulating   whether plans keep their promises, request by request
//	grouping     what applications save that share functions
//	pools        the goodput of pools of unlike instances
//	cores        how many decisions a second a scheduler on several cores takes
//
// Package figure is what all of them have in common, and published the numbers
// that they start from.
//
// Experiments drive the rooms below; only the command line imports them.
package experiments
