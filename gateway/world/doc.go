// Package world is a fleet in one process for tests: real gateways, dispatchers and
// executors on emulated engines, joined by a network in memory, under virtual time.
//
//	callers ──> gateways ──queue──> dispatchers
//	               │                    │
//	               └─────── attach ── executors of hosts
//
// A seed draws everything: the shape of the pipelines, load, delays of the network, and
// what goes wrong (connections cut, processes killed and stopped, engines slow, wrong,
// crashing or poisoned, hosts that leave and join, declarations applied, taken back and
// deleted, owners that change, callers who leave, clocks that are wrong and set, full disks
// of hosts, control away for longer than any timeout). In most worlds a small driver installs
// generations by the calls that the activities of the workflows make. In others
// (workflows_test.go) the workflows of services and of the fleet do, in Temporal's test
// environment, by the activities that they have in production.
//
// A checker (history_test.go) receives the outcomes of callers and every message of the
// network. At the end faults cease; then single ones happen under load (single_test.go), after
// which no request may be forgotten until its gateway gives it up; and then the fleet has to
// serve as if nothing had happened.
//
// Draws do not depend on the order in which goroutines run: each actor has a sequence of
// its own, and engines draw by the request and the time. Delays are drawn by the
// nanosecond, so that hardly two things happen at one instant; where they do, the order is
// the Go scheduler's, and a seed may then go another way. With -again every seed is played
// twice, and compared event by event: with GOMAXPROCS=1 nine of ten and more go the same way.
//
// It holds tests only:
//
//	go test ./gateway/world -run TestSeeds -seeds 1000 -first 1
//	go test ./gateway/world -run TestWorkflowSeeds -workflows 100 -workflows.first 1
package world
