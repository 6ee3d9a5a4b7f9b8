// Package gateway is the request path: it takes a request to a service, runs it
// through the service's modules on executors, and returns the answer.
//
//	Infer ── graph ──┬── item of "detect" ──> dispatcher ── Start ──> executor
//	                 ├── item of "crop"   ──>     "
//	                 └── ...     ^                                       │
//	                             └────────────── outputs ────────────────┘
//
// A gateway holds requests, their tensors and their outcomes. A Graph runs a
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
// (admission.go). Servers call RejectEarly before they read a request's body.
//
// # Failures
//
// Every accepted request ends in exactly one outcome. Engines are pure
// functions, so when an executor's stream breaks, or its engine crashes, the
// requests of the batch are queued once more, as long as their deadlines allow;
// the second time they fail with code "unavailable" and the engine's error.
//
// Other errors of engines are not repeated. They fail the requests that caused
// them: an executor that is given a batch which its engine refuses computes the
// requests one by one.
//
// # Functions
//
// A function is a graph of one module whose executors are calls to a provider, one
// executor for each group of the plan (function.go). Nothing attaches: batches start by
// policy grouped, and any number of calls runs at once, up to what the provider
// allows. A function is addressed as FUNCTION/APPLICATION, because the
// application is what has an objective; one that has a single application may be
// addressed by its own name. What has been sent is answered however late it comes,
// and a caller that leaves withdraws a waiting request; a call that has begun goes on, because
// the provider bills it anyway. Package serverless decides which calls are retried.
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
//
// # Graphs
//
// A Graph runs a request through the modules of its service, with its tensors. It is a deployment compiled for running: the modules in order, where the
// tensors of each come from, and the scopes of items that fan-out opens (package
// scheduler/flow). A Request begins with what needs only its inputs; every item that
// is complete makes others ready, until the last output is there. Ready items go to
// the graph's Queue, and come back by Complete or Fail.
//
// # Items and scopes
//
// A request is one item. A module that declares a fan-out splits every input
// that is one rank higher than a row into k items, and everything that follows
// from one of them belongs to its scope, until a module or an output outside
// the scope gathers the items again, in order. k may be zero.
//
// # Rows
//
// A query of a pool is one item of several rows, which travel to its executor as a
// batch of their own (gather.go). A Route maps the tensors of a module to the signature of an
// executor.
//
// # Ends
//
// A request ends once, whatever comes afterwards: with its outputs, or with the first
// error. The items that still wait are then taken back.
//
// # Bytes in flight
//
// Bytes bounds the memory of requests that are under way, in bytes: of a
// gateway, and of each pipeline. A request counts with its body from before that is
// read until it is answered, with what it is decoded to, with what modules make of it, and
// with its answer until that is written. Beyond a bound it is
// refused, typed, so that many large requests at once, and callers who do not read,
// cost time and not the process.
//
// # Tenants
//
// Tenants divides what services accept among the tokens that callers have, by admission.Shares,
// and holds each token to the rate that it may send. Callers without a token of their own are
// one tenant together, of weight 1. Until a named token has come nothing is counted and no lock
// is taken.
//
//	if err := all.Allow(tenant, time.Now()); err != nil ...
//	paid, err := service.Admit(tenant, n, &own)     // own admission: what there is room for
//	service.Enter(tenant, &request.Share, paid)
//	all.Begun(&request.Share)                        // when an engine has it
//	service.Leave(tenant, &request.Share, lost, now) // in the end
//
// # Logs
//
// A Logger writes failures and changes of what is served as structured records (log/slog).
//
// Failing requests are logged: the first of a kind (service, outcome, module, code) is written
// at once with its reason, and how many more there were within LogEvery follows in one record,
// so that a flood of failures neither hides the log nor fills the disk. Requests that are
// answered in time cost one comparison.
//
//	l := gateway.NewLog(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
//	g := gateway.New(gateway.Options{Observer: l.Observer()})
//	defer l.Close()
//
// # Statistics
//
// A StatisticsCollector adds up what the statistics extension of the Open
// Inference Protocol reports of a model: requests answered and failed, the time
// that they waited and that engines computed, and batches by size. It is an
// observer of a gateway; package grpcapi and package httpapi answer from it.
package gateway
