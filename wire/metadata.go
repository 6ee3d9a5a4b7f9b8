package wire

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Metadata is what a gateway tells of a pipeline that it serves.
type Metadata struct {
	Pipeline   string
	Platform   string // what serves it, as the server says; empty for what a gateway is by default
	Generation int    // of the plan that serves now
	Ready      bool
	Reason     string // why it is not ready
	SLO        time.Duration
	Inputs     []pipelines.Port
	Outputs    []pipelines.Port // a datatype is empty until an executor has attached

	// Applications of a function, each addressed as NAME/APPLICATION, with the
	// rates that are planned for; none for a pipeline.
	Applications []pipelines.Application

	// Members are the pipelines of a cluster, each addressed by its own name, with the
	// rates that are planned for.
	Members []pipelines.Application
}
