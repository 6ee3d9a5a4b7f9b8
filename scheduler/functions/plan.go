package functions

import "time"

// Status of a plan.
type Status string

// The statuses, as printed.
const (
	Optimal    Status = "optimal"    // no partition costs less, within the model
	Feasible   Status = "feasible"   // may not be the cheapest
	Infeasible Status = "infeasible" // no plan; Reason says why
)

// Plan says which applications of a function share a batch, and what runs it.
type Plan struct {
	Function       string
	Policy         string
	Status         Status
	Reason         string        // when infeasible
	Sound          bool          // every timeout plus maximum latency is within the objective
	Rate           float64       // requests per second of all applications
	CostPerRequest float64       // mean over requests
	ExpectedCost   float64       // per request, as billed where requests come at random and batches leave before they are full
	LowerBound     float64       // per request, for every partition; 0 when none is known
	ColdStart      time.Duration // of 99 of 100 at most; 0 where the profile does not say
	Prepared       bool          // instances are started for all but one of a thousand calls
	CutShort       bool          // the search ended early: more time may find less cost, or a bound
	SolveTime      time.Duration
	Groups         []Group // in order of their shortest objectives
}

// Group is applications with one queue and one kind of function.
type Group struct {
	Offer
	Rate         float64       // requests per second
	LatencyAvg   time.Duration // of a batch
	LatencyMax   time.Duration
	Timeout      time.Duration // equivalent timeout of the group (equation 5)
	Applications []Share       // in order of objectives
}

// Share is an application in a group.
type Share struct {
	Name    string
	SLO     time.Duration
	Rate    float64       // requests per second that go to this group
	Timeout time.Duration // longest wait of a request for its batch; 0 where batches hold one
}

// CostPerHour is what the plan costs when batches are full, in money per hour.
func (p Plan) CostPerHour() float64 { return p.CostPerRequest * p.Rate * 3600 }

// Gap is by how much the cost may exceed the least, relative to the bound;
// 0 where no bound is known.
func (p Plan) Gap() float64 {
	if p.LowerBound <= 0 {
		return 0
	}
	return max(0, p.CostPerRequest/p.LowerBound-1)
}
