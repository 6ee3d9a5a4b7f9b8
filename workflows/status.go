package workflows

import (
	"github.com/harpagon/harpagon/workflows/rescheduling"
	"github.com/harpagon/harpagon/workflows/status"
)

// What a change is given and leaves behind; see package rescheduling.
type (
	Settings          = rescheduling.Settings
	Deployed          = rescheduling.Deployed
	Running           = rescheduling.Running
	RescheduleRequest = rescheduling.Request
	RescheduleReply   = rescheduling.Reply
)

// Defaults of Settings.
const (
	DefaultPrepareTimeout = rescheduling.DefaultPrepareTimeout
	DefaultRetryAfter     = rescheduling.DefaultRetryAfter
)

// What is told of a service; see package status.
type (
	Status      = status.Status
	Phase       = status.Phase
	Failure     = status.Failure
	Decision    = status.Decision
	Change      = status.Change
	Asked       = status.Asked
	ModuleFiles = status.ModuleFiles
	Pace        = status.Pace
	TrialStatus = status.Trial
)

// The phases of a service.
const (
	Waiting     = status.Waiting
	Profiling   = status.Profiling
	Planning    = status.Planning
	Reconciling = status.Reconciling
	Trying      = status.Trying
	Serving     = status.Serving
	Draining    = status.Draining
	Drained     = status.Drained
	Deleted     = status.Deleted
)
