package placement

import (
	"fmt"
	"math"
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

	AtOnce int `json:",omitempty"` // batches that every Period releases; 0 is one

	// Bursts means that its batches need not come one Period apart: no group that shares
	// the device has a proof for single requests.
	Bursts bool `json:",omitempty"`

	// Rides means that the executor runs beside another of its pipeline and does
	// not wait for the device's turn (see plan.Group).
	Rides bool `json:",omitempty"`
}

// Emulated is the engine of executors that run no network: they return invented tensors
// after the profiled time.
const Emulated = pipelines.EngineEmulated

// Emulates reports whether answers of the executor are made up, of one of its modules at least.
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

	// Life is higher for a service that was deleted and applied again, whose generations
	// begin again, too. 0 is of control roles that did not count them.
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

// Before reports whether the age is an earlier one than another. One without a life is taken
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

// DefaultMaxShare is the most of a device's time that a placement uses where a Request sets
// no MaxShare.
const DefaultMaxShare = 0.75

// Request is everything that Place looks at.
type Request struct {
	Pipeline pipelines.Pipeline
	Plan     plan.Plan // of that pipeline
	Devices  []Device
	Engines  map[string]ModuleEngine // by module name

	// Reserved are the slots of other pipelines; their shares and memory are
	// taken.
	Reserved []Slot

	// Actual are the slots of this pipeline that run now; they are kept in
	// place where that is possible.
	Actual []Slot

	// Start numbers what is to be started. One number is given to one placement only,
	// over all lives of a service: executors of the same content that were started
	// before, and may not have gone yet, are distinguished by it. 0 names by content alone.
	Start int

	// MaxShare bounds the utilisation of every device, above 0 and at most 1.
	// 0 means DefaultMaxShare.
	MaxShare float64

	// Whole gives every machine of the plan a device to itself, and no more
	// executors than machines: instances that are rented one by one.
	Whole bool
}

// ModuleEngine is what executes a module.
type ModuleEngine struct {
	Engine string // name
	Model  string // digest of model or function with its parameters
	Memory int64  // bytes of one loaded instance; 0 when unknown
}

// Placement is the answer of Place.
type Placement struct {
	Slots []Slot // by module in the plan's order, then by group, host and device
	Loads []Load // of every device of the request, in its order

	// Proven means that the devices run what the plan proves: groups together
	// that share a device, and nothing beside them that could make them late.
	Proven bool
}

// Load is what a placement makes of one device, other pipelines included.
type Load struct {
	Device Device
	Share  float64 // planned utilisation, 0..1
	Memory int64   // bytes in use as far as known
}

// MisfitError states which module does not fit onto the devices.
type MisfitError struct {
	Module   string
	Hardware string
	Reason   string
	// Rate is the highest rate of the pipeline, in requests per second, whose
	// shares would fit; 0 when none would.
	Rate float64
}

// Error is the reason with the rate that would fit.
func (e *MisfitError) Error() string {
	s := fmt.Sprintf("placement: module %s does not fit: %s", e.Module, e.Reason)
	if e.Rate > 0 {
		s += fmt.Sprintf("; at most %.3g requests per second would fit", e.Rate)
	}
	return s
}

func (r *Request) maxShare() (float64, error) {
	switch {
	case r.Whole:
		return 1, nil
	case r.MaxShare == 0:
		return DefaultMaxShare, nil
	case !(r.MaxShare > 0) || r.MaxShare > 1:
		return 0, fmt.Errorf("placement: the bound on utilisation is %v; it must be above 0 and at most 1", r.MaxShare)
	}
	return r.MaxShare, nil
}

func (r *Request) check() error {
	if r.Plan.Status == plan.Infeasible {
		return fmt.Errorf("placement: the plan of pipeline %s is infeasible: %s", r.Plan.Pipeline, r.Plan.Reason)
	}
	for _, m := range r.Plan.Modules {
		for i, g := range m.Groups {
			if !(g.Machines >= 0) || math.IsInf(g.Machines, 1) || !(g.Rate >= 0) || g.Duration <= 0 || g.Batch < 1 {
				return fmt.Errorf("placement: group %d of module %s has %v machines, batch %d and duration %v; make a new plan",
					i, m.Name, g.Machines, g.Batch, g.Duration)
			}
		}
	}
	seen := map[place]bool{}
	for _, d := range r.Devices {
		if seen[d.place()] {
			return fmt.Errorf("placement: device %s is listed twice", d.place())
		}
		seen[d.place()] = true
	}
	return nil
}

// place names a device in the whole fleet.
type place struct{ host, device string }

func (p place) String() string    { return p.host + "/" + p.device }
func (d Device) place() place     { return place{d.Host, d.Name} }
func (s *Slot) place() place      { return place{s.Host, s.Device} }
func percent(x float64) string    { return fmt.Sprintf("%.0f %%", 100*x) }
func devices(x float64) string    { return fmt.Sprintf("%.2f", x) }
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
