// Package gateway is the request path: it takes a request to a service, runs it
// through the service's modules on executors, and returns the answer.
//
//	Infer ── graph ──┬── station "detect" ── policy ── executors
//	                 ├── station "crop"   ── policy ── executors
//	                 └── ...
//
// A graph is a deployment compiled for running: the modules in order, what each
// waits for, and the scopes of items that fan-out opens. A station is the
// driver of one module: it holds the waiting items and the attached executors,
// and asks a dispatch.Policy what to do. The station decides nothing itself.
//
// # Items and scopes
//
// A request is one item. A module that declares a fan-out splits every input
// that is one rank higher than a row into k items, and everything that follows
// from one of them belongs to its scope, until a module or an output outside
// the scope gathers the items again, in order. k may be zero.
//
// # Time
//
// An item carries a virtual arrival: the request's arrival plus the budgets of
// the modules above on the longest path. Windows count from it. Its deadline is
// the request's deadline less the time that the modules below need at least.
// The request's deadline is arrival plus SLO, or the caller's if sooner. What
// can no longer meet it is dropped with a typed error. A request that has
// reached its last engine in time is still answered when it finishes late, and
// counted as late.
//
// # Admission
//
// A request is refused when it comes if the work before it leaves no time for it
// (package scheduler/dispatch/admission; admission.go drives it). Every graph is a
// service there; items are counted as they wait, run and come back. Crowded is the
// same question before a server has read a request's body.
//
// # Failures
//
// Every accepted request ends in exactly one outcome. Engines are pure
// functions, so when an executor's stream breaks, or its engine crashes, the
// requests of the batch are queued once more, as long as their deadlines allow;
// the second time they fail with code "unavailable" and what the engine said: a
// request that crashes engines must not travel from one to the next. While an
// executor loads its engine anew it gets no batches, and others take its work.
//
// Other errors of engines are not repeated. They fail the requests that caused
// them: an executor that is given a batch which its engine refuses computes the
// requests one by one.
//
// # Functions
//
// A function is a graph of one module whose executors are calls to a provider, one
// executor for each group of the plan (call.go). Nothing attaches: its station
// starts batches by policy grouped, and any number of calls runs at once, up to what
// the provider allows. A function is addressed as FUNCTION/APPLICATION, because the
// application is what has an objective; one that has a single application may be
// addressed by its own name. What has been sent is answered however late it comes,
// and a caller who leaves takes a waiting request with him; a call that has begun
// goes on, because the provider bills it anyway. Package invoke says what is sent
// again.
//
// # Policies
//
// The pipeline's declaration names the policy of its stations. It is made from
// the plan by package timing, as the simulator makes it. Those that go by
// deadlines have the budgets of the modules below taken off, and a margin for
// what is not punctual.
//
// # Changing the deployment
//
// Prepare waits until every executor of a deployment has attached, or a provider
// answers. Install
// switches: new requests follow the new graph; a station whose module stays
// the same keeps its waiting items and takes on the new policy and executors,
// and a station of a module that changed lives on until its last request is
// answered. Release drains executors that are no longer used. Nothing fails or
// is lost because of an Install, except what waits for an application of a function
// that is gone.
//
// # Locks
//
// Order: Gateway.mu, station.mu, executor.mu, device.mu and door.mu. A station
// sends batches and fails requests only after its own lock has been released;
// request.mu is held while no other lock is taken. Streams do not block on Send,
// which is
// what lets an Install start batches while it holds Gateway.mu.
package gateway
