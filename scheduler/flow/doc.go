// Package flow runs a request through the DAG of its pipeline: it reports which
// items are ready, what is still outstanding, and by when each item is due. The
// gateway and the simulator drive the same code; the gateway keeps tensors
// beside it, by the index of an item, and the simulator keeps none.
//
// Compile orders the modules that outputs depend on and finds their scopes. A
// scope is a level of fan-out: scope 0 holds the request itself, and every
// module that scatters opens one below the scope of its inputs. Within one
// request a scope has frames, one for each item that its module has made:
//
//	request           frame 0 of scope 0
//	└── detect = 2    frames 1, 2 of scope 1      (detect scatters into 2 items)
//	    └── read = 3  frames 3, 4, 5 of scope 2   (read scatters the first into 3)
//
// A module runs once in every frame of its scope; that run is an Item. Where a
// module takes inputs from several scopes, it joins them: it runs in the frames
// of the deepest scope that they have in common, once all items below the frame
// are complete, and receives them in order (Request.Frames).
//
// A Request is a state machine without a clock and without calls into its
// driver. Begin and Complete append the items that became ready. An item of a
// module that scatters must be split first: the driver determines into how many (the rows
// of a tensor, or a random number), and calls Split.
//
//	ready = r.Begin(graph, ready[:0])
//	for i := 0; i < len(ready); i++ {
//		if graph.Nodes[ready[i].Node].Scatter {
//			first, ready = r.Split(ready[i], k, ready) // frames first to first+k-1
//			...
//		}
//		...
//	}
//
// Schedule adds the times of a plan. An item counts as arrived at its module when the
// budgets of the modules above, on the longest path, have passed since the request came
// (its virtual arrival), whenever it really becomes ready; and it must leave early enough
// for the modules below.
//
// # Time
//
// The file dispatch_from_plan.go derives from a plan how the dispatcher of a module
// collects its batches, and how long a batch of any size takes. Simulator, dispatcher and
// gateway call the same functions, so that what is simulated is what runs.
package flow
