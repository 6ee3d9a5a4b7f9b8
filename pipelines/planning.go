package pipelines

// Planning is how a service is planned, as its plan block says; the zero value
// is the default of its kind. Which names exist is checked by the planner of the
// kind.
type Planning struct {
	Policy      string   `json:",omitempty"` // empty means exact
	CostModel   string   `json:",omitempty"` // of pipelines; empty means shared
	Without     []string `json:",omitempty"` // steps of the policy that are switched off
	Split       string   `json:",omitempty"` // how policy harpagon divides the objective
	Reading     string   `json:",omitempty"` // of Theorem 1, for a machine that is partly used
	Concurrency bool     `json:",omitempty"` // several batches at a time on a machine, for policies that leave the choice

	// AllowUnsound lets a plan serve that is not sound: some of its windows cannot
	// be kept by any dispatcher.
	AllowUnsound bool `json:",omitempty"`
}
