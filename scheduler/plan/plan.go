package plan

import (
	"time"
)

// Status of a plan.
type Status string

// The statuses, as printed.
const (
	Optimal    Status = "optimal"    // cost equals the lower bound
	Feasible   Status = "feasible"   // keeps the objective; may not be the cheapest
	Infeasible Status = "infeasible" // no plan; Reason says why
)

// How far the promise of a plan goes.
const (
	EveryRequest = "every-request" // holds for every request of an evenly paced source
	MeanRate     = "mean-rate"     // capacity fits the mean rates; the simulator tells the attainment
)

// Plan says what runs for one pipeline.
type Plan struct {
	Pipeline   string
	Policy     string
	CostModel  string
	Status     Status
	Reason     string  // when infeasible: which path needs how much
	Sound      bool    // every group's window passes the processor-demand test
	Proof      string  // "every-request" or "mean-rate"
	Cost       float64 // money per hour
	LowerBound float64 // money per hour; 0 when none is known

	// Restriction says among which plans LowerBound holds; empty when it holds
	// for every plan that a dispatcher can keep.
	Restriction string

	SLO time.Duration

	// Headroom is what of the SLO is left free for what machines do besides: the
	// budgets along a path add up to at most SLO - Headroom. HeadroomCost is what
	// the plan costs more than one without it would, money per hour; nil where
	// that was not looked at. It is not negative.
	Headroom     time.Duration
	HeadroomCost *float64

	// Transfer is what the durations of all batches count for the way from a gateway to
	// an executor and back; see Transferred. 0 leaves that to the margin that
	// dispatchers keep anyway.
	Transfer time.Duration

	Latency   time.Duration // longest path of worst cases
	SolveTime time.Duration

	// CutShort says that the search was ended by its time limit or by who asked:
	// elsewhere, or with more time, the same problem may have another plan.
	CutShort bool

	Modules []Module
	Devices []Device // that groups share, under cost model shared

	// Expected is what the plan attains of the arrivals that the pipeline
	// declares, by simulation; nil for even ones.
	Expected *Expectation

	// Interruptions is what it means for requests that devices of the plan are taken
	// back; nil where none are.
	Interruptions *Interruptions

	// Accuracy is the pipeline's with the networks that Variants says serve its modules;
	// 0 where no module has variants.
	Accuracy float64
	Variants []ServedVariant

	// Carries is the rate that the plan is for, where fixed devices suffice for no more of
	// the pipeline's; 0 where it is for all of it. In requests per second.
	Carries float64
}

// Interruptions is what a plan on devices that are taken back must bear.
type Interruptions struct {
	Missing   float64 `json:"missing"`    // share of requests that find no device in time, in the long run, at the most
	Allowed   float64 `json:"allowed"`    // of it, by the attainment that is asked for; 1 where none is
	Spare     float64 `json:"spare"`      // devices that are there only for when others are taken back
	SpareCost float64 `json:"spare_cost"` // of them, money per hour; part of the plan's cost
}

// Expectation is the share of requests that a plan is expected to answer within
// the SLO.
type Expectation struct {
	Arrivals   string  `json:"arrivals"`
	Dispatch   string  `json:"dispatch"` // the policy that was simulated
	Attainment float64 `json:"attainment"`
	Low        float64 `json:"low"` // of the interval that holds it
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // that it is no lower than Low
	Requests   int64   `json:"requests"`   // that were simulated
	Target     float64 `json:"target"`     // that was asked for; 0 for none
}

// Module is the part of a plan for one module.
type Module struct {
	Name      string
	Rate      float64 // real requests per second
	DummyRate float64
	Budget    time.Duration
	WorstCase time.Duration // claimed
	Proven    time.Duration // by the processor-demand test; 0 when there is none
	Cost      float64
	Groups    []Group
}

// Group is Machines devices that run one configuration and receive Rate.
type Group struct {
	Hardware    string
	Batch       int
	Concurrency int
	Duration    time.Duration
	Machines    float64
	Spare       float64 // of Machines: there only for when others are taken back
	Rate        float64
	DummyRate   float64
	Period      time.Duration // between two batches of the group
	Window      time.Duration // longest wait of a request for its batch

	// Deadline, on a shared device, is the longest from the end of the window
	// to the end of the batch; waiting for other groups' batches is part of it.
	// 0 on devices of its own, where a batch starts at once.
	Deadline time.Duration

	// Rides says that the group is a processing step of microseconds that runs
	// beside an executor of the pipeline, on a device that is there for that one:
	// it costs nothing and does not wait for the device's turn. Machines is the
	// share of the device that it uses.
	Rides bool
}
