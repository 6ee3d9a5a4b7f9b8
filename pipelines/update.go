package pipelines

import "time"

// Update says how a change of a pipeline is carried out, as its update block says; the
// zero value moves all traffic at once.
type Update struct {
	Canary float64       // share of requests that the new generation answers first, 0 to 1
	Shadow float64       // share of requests that it is sent as well, and does not answer, 0 to 1
	Hold   time.Duration // for how long; 0 means DefaultHold
	Revert Revert
}

// Revert says when a change is taken back.
type Revert struct {
	Attainment float64 // the least that the new generation may attain, as a share of what the old one does; 0 means DefaultRevert
	Cost       float64 // the most that it may cost per request, in terms of the old one; 0 for any
}

// Defaults of Update.
const (
	DefaultHold   = time.Minute
	DefaultRevert = 0.98
)

// UpdatePath is where an update block stands within its pipeline; see PlanPath.
const UpdatePath = ".{update}"

// IsZero says that nothing is declared.
func (u Update) IsZero() bool { return u == Update{} }

// Tried says that a change is tried on a share of requests first.
func (u Update) Tried() bool { return u.Canary > 0 || u.Shadow > 0 }

// Faults are what is wrong with an update block.
func (u Update) Faults() []Fault {
	var all []Fault
	share := func(name string, x float64) {
		if !(x >= 0 && x <= 1) {
			all = append(all, Fault{name, "Not a share", name + " is a share of the requests, above 0 and at most 1, such as 0.1."})
		}
	}
	share("canary", u.Canary)
	share("shadow", u.Shadow)
	switch {
	case len(all) > 0:
	case u.Canary+u.Shadow > 1:
		all = append(all, Fault{"shadow", "More than all requests", "What the new generation answers is not sent to it once more: canary and shadow together are at most 1."})
	case !u.Tried():
		all = append(all, Fault{"canary", "Nothing is tried", "An update block says which share of requests tries a change first, such as canary = 0.1 or shadow = 0.1; without either, take it out."})
	}
	if u.Hold < 0 {
		all = append(all, Fault{"hold", "Not a time", "hold is how long a change is tried, such as \"60s\"."})
	}
	if !(u.Revert.Attainment >= 0 && u.Revert.Attainment <= 1) {
		all = append(all, Fault{"revert", "Not a share", "attainment of revert is the least that the new generation may attain as a share of what the old one does, above 0 and at most 1, such as 0.98."})
	}
	if c := u.Revert.Cost; c < 0 || !IsFinite(c) {
		all = append(all, Fault{"revert", "Not a factor", "cost of revert is the most that a request may cost in terms of before, such as 1.2."})
	}
	return all
}
