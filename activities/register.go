package activities

import (
	"time"

	"go.temporal.io/sdk/worker"
)

// RegisterControl registers what the control worker does, on ControlQueue.
func RegisterControl(w worker.ActivityRegistry, plans *Planning, fleet *Fleet, providers *Functions) {
	w.RegisterActivity(plans)
	w.RegisterActivity(providers)
	w.RegisterActivity(fleet)
}

// RegisterHost registers what a host's worker does, on HostQueue(h.Name).
func RegisterHost(w worker.ActivityRegistry, h *Host) {
	w.RegisterActivity(h)
}

// RegisterGateway registers what the gateway's worker does, on its Member.Queue.
func RegisterGateway(w worker.ActivityRegistry, g *GatewayActivities) {
	w.RegisterActivity(g)
}

// RegisterDispatcher registers what a dispatcher's worker does, on its Member.Queue.
func RegisterDispatcher(w worker.ActivityRegistry, d *DispatcherActivities) {
	w.RegisterActivity(d)
}

// RegisterProvisioner registers what a control role's worker does that makes hosts, on its
// Member.Queue.
func RegisterProvisioner(w worker.ActivityRegistry, p *Provisioner) {
	w.RegisterActivity(p)
}

// HostWorkerOptions are options for a host's worker: no workflows, and time to
// drain at shutdown. executors bounds how many activities run at once; 0 means
// the SDK's default.
func HostWorkerOptions(executors int) worker.Options {
	return worker.Options{
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: executors,
		WorkerStopTimeout:                  DrainTimeout,
	}
}

// GatewayWorkerOptions are options for the worker of a gateway or a dispatcher: no
// workflows, and time to leave the fleet.
func GatewayWorkerOptions() worker.Options {
	return worker.Options{DisableWorkflowWorker: true, WorkerStopTimeout: 2 * time.Second}
}
