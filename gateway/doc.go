// Package gateway is the request path: it takes a request to a service, runs it
// through the service's modules on executors, and returns the answer.
//
//	Infer ── graph ──┬── item of "detect" ──> dispatcher ── Start ──> executor
//	                 ├── item of "crop"   ──>     "
//	                 └── ...     ^                                       │
//	                             └────────────── outputs ────────────────┘
//
// A gateway holds requests, their tensors and their outcomes. Package graph runs a
// request through the modules of its service; package dispatcher, which sees names,
// sizes and times only, decides when and where an item of a module runs. When a batch
// starts, the gateway sends the tensors of its items to the executor; the outputs that
// come back complete the items.
//
// The packages below it are what a gateway is reached by (httpapi, grpcapi) and watched
// by (metrics, statistics).
//
// # Time
//
// The request's deadline is arrival plus SLO, or the caller's if sooner. What
// can no longer meet it is dropped with a typed error. A request that has
// reached its last engine in time is still answered when it finishes late, and
// counted as late.
//
// # Admission
//
// A request is refused when it comes if it is wrong in itself, if too many are under
// way, if a module has no executor, or if the work before it leaves no time for it
// (admit.go). Crowded is the last question before a server has read a request's body.
//
// # Failures
//
// Every accepted request ends in exactly one outcome. Engines are pure
// functions, so when an executor's stream breaks, or its engine crashes, the
// requests of the batch are queued once more, as long as their deadlines allow;
// the second time they fail with code "unavailable" and what the engine said.
//
// Other errors of engines are not repeated. They fail the requests that caused
// them: an executor that is given a batch which its engine refuses computes the
// requests one by one.
//
// # Functions
//
// A function is a graph of one module whose executors are calls to a provider, one
// executor for each group of the plan (call.go). Nothing attaches: batches start by
// policy grouped, and any number of calls runs at once, up to what the provider
// allows. A function is addressed as FUNCTION/APPLICATION, because the
// application is what has an objective; one that has a single application may be
// addressed by its own name. What has been sent is answered however late it comes,
// and a caller who leaves takes a waiting request with him; a call that has begun
// goes on, because the provider bills it anyway. Package invoke says what is sent
// again.
//
// # Changing the deployment
//
// Prepare waits until every executor of a deployment has attached, or a provider
// answers. Install switches: new requests follow the new graph, and those under way
// finish on the graph that they have begun with. Release drains executors that are no
// longer used. Nothing fails or is lost because of an Install, except what waits for
// an application of a function that is gone.
//
// # Locks
//
// Order: Gateway.mu, those of the dispatcher, executor.mu. A request's lock is held
// while no other lock is taken. Streams do not block on Send, which is what lets an
// Install start batches while it holds Gateway.mu.
package gateway
