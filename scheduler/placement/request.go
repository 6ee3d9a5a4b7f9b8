package placement

import (
	"fmt"
	"math"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// DefaultMaxShare is the most of a device's time that a placement plans to
// use where a Request does not say.
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
	// before, and may not have gone yet, are told apart by it. 0 names by content alone.
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

	// Proven says that the devices run what the plan proves: groups together
	// that share a device, and nothing beside them that could make them late.
	Proven bool
}

// Load is what a placement makes of one device, other pipelines included.
type Load struct {
	Device Device
	Share  float64 // planned utilisation, 0..1
	Memory int64   // bytes in use as far as known
}

// MisfitError says which module does not fit onto the devices.
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
