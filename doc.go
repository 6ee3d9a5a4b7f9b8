// Package harpagon is the root of Harpagon, which serves pipelines of several
// neural networks for the least money that keeps one end-to-end latency
// objective. It holds no code: its tests keep the house in order, the map of
// which docs/architecture.md lists.
//
// Programs start at package sdk (ask a running gateway) or sdk/local (run
// everything inside the program); people start at the command harpagon.
package harpagon
