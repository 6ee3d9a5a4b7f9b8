// Package cluster plans clusters: how many devices, any of which may run any model,
// the declared rates of many pipelines need, and which pipelines share a dispatcher
// (Symphony, sections 4.2, 4.7 and appendix A).
//
//	plan.go       what is asked, and the plan with its text; json.go is its contract
//	solve.go      the steps: divide objectives, divide the cluster, size each part
//	size.go       the least number of devices that attains, by simulation, and a bound
//	parts.go      which pipelines share devices: the problem for package partition
//
//	division      the objective of a pipeline among its modules
//	partition     models among sub-clusters
//
// A plan of package plan proves for even arrivals; here nothing is proven for the
// single request, and what is promised is what the simulator, driving the policy
// that serves, attains with stated confidence.
package cluster
