// Package roles runs the three roles of Harpagon over a Temporal client, one a
// process or all in one:
//
//   - control runs the workflows and the activities that decide;
//   - a worker is a host with devices: it profiles modules and runs executors;
//   - a gateway takes requests, and the streams of executors.
//
// StartControl, StartWorker and StartGateway return at once; the role then runs
// until Stop, which lets it finish what it holds.
package roles
