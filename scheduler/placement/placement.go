package placement

import (
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Device is one schedulable device of a host: a GPU, or a CPU core.
type Device struct {
	Host     string
	Name     string // unique on its host: "cpu/0", "gpu/GPU-1c2f..."
	Hardware string
	Memory   int64 // bytes; 0 when unknown
	Cores    int   `json:",omitempty"` // of the processor, where the device is an instance of several; 0 means 1
}

// Slot is one executor: a module's engine on a device.
type Slot struct {
	Executor string // name, which no other executor has had
	Pipeline string
	Module   string
	Group    int // index into plan.Module.Groups
	Batches  []int
	Batch    int

	// Concurrency is how many batches the executor runs side by side; 0 means one.
	Concurrency int `json:",omitempty"`

	Window   time.Duration
	Duration time.Duration // profiled, of a full batch
	Hardware string
	Host     string
	Device   string
	Engine   string
	Model    string  // digest of model or function with its parameters
	Share    float64 // expected utilisation of the device, 0..1
	Memory   int64   // bytes; 0 when unknown

	// Where the placement is proven: the least time between two batches, and
	// how long after it was closed a batch must be done. 0 otherwise.
	Period   time.Duration
	Deadline time.Duration

	// Rides says that the executor runs beside another of its pipeline and does
	// not wait for the device's turn (see plan.Group).
	Rides bool `json:",omitempty"`
}

// Emulated is the engine of executors that run no network, and answer with what they make
// up in the time that profiles say.
const Emulated = "emulated"

// Emulates says whether answers of the executor are made up, of one of its modules at least.
func (s Slot) Emulates() bool { return slices.Contains(strings.Split(s.Engine, "+"), Emulated) }

// EmulatedBy are the modules whose executors make their answers up, each once.
func EmulatedBy(slots []Slot) (modules []string) {
	for _, s := range slots {
		if s.Emulates() && !slices.Contains(modules, s.Module) {
			modules = append(modules, s.Module)
		}
	}
	return modules
}

// Deployment is everything that a gateway needs to serve one generation of a
// service, of whatever kind.
type Deployment struct {
	Generation int

	// Life is higher for a service that was deleted and applied anew, whose generations
	// begin anew, too. 0 is of control roles that did not count them.
	Life int `json:",omitempty"`

	// Pipeline runs on the slots. A pool is run as the pipeline that package pool
	// makes of it. Of a function only the name is set: its plan has no slots.
	Pipeline pipelines.Pipeline
	Plan     plan.Plan
	Slots    []Slot

	// Pool is set where queries of different sizes are served. Worth is what a
	// second is worth on the instances of each group of the plan, for policy
	// matching.
	Pool  *pipelines.Pool `json:",omitempty"`
	Worth []float64       `json:",omitempty"`

	// Function is set where batches are calls at a provider.
	Function *functions.Deployment `json:",omitempty"`

	// Cluster is set where devices run all modules of several pipelines; of Pipeline
	// only the name is set then. Within names the part of the cluster that serves
	// Pipeline, in what Member returns.
	Cluster *Cluster `json:",omitempty"`
	Within  string   `json:",omitempty"`
}

// Age orders all that is deployed of one service, over all of its lives.
type Age struct{ Life, Generation int }

// Age of the deployment.
func (d *Deployment) Age() Age { return Age{d.Life, d.Generation} }

// Before says whether the age is an earlier one than another. One without a life is taken
// to be of the same.
func (a Age) Before(b Age) bool {
	if a.Life == 0 || a.Life == b.Life {
		return a.Generation < b.Generation
	}
	return a.Life < b.Life
}

// Name is the service's name.
func (d *Deployment) Name() string { return d.Pipeline.Name }

// Slot is that of an executor; nil where it has none.
func (d *Deployment) Slot(executor string) *Slot {
	for i := range d.Slots {
		if d.Slots[i].Executor == executor {
			return &d.Slots[i]
		}
	}
	return nil
}

// Kind is the service's kind.
func (d *Deployment) Kind() pipelines.Kind {
	switch {
	case d.Function != nil:
		return pipelines.KindFunction
	case d.Pool != nil:
		return pipelines.KindPool
	case d.Cluster != nil:
		return pipelines.KindCluster
	}
	return pipelines.KindPipeline
}
