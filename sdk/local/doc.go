// Package local runs all of Harpagon within a program and its child processes: Temporal
// with its UI, planner, gateway and executors, for development, tests and single machines.
//
//	func main() {
//		local.ChildMain() // networks and Temporal run in child processes of this program
//		...
//		system, err := local.Up(ctx, "traffic.hcl")
//		...
//		defer system.Close()
//		result, err := system.Client().Infer(ctx, "traffic", inputs)
//	}
//
// The declaration may be made in Go instead of, or beside, files:
//
//	p, err := build.New("traffic").SLO(400*time.Millisecond).Rate(10)...Build()
//	...
//	system, err := local.Serve(ctx, pipelines.Document{
//		Hardware:  []pipelines.Hardware{{Name: "cpu", Price: 0.05}},
//		Pipelines: []pipelines.Pipeline{p},
//	})
//
// What it keeps is in a state folder; see package system. The variables
// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and so on point it at a Temporal server
// elsewhere.
package local
