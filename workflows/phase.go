package workflows

// Phase of a service.
type Phase string

// The phases.
const (
	Waiting     Phase = "waiting"     // nothing applied yet, or a change failed and nothing serves
	Profiling   Phase = "profiling"   // measuring modules
	Planning    Phase = "planning"    // choosing plan and placement
	Reconciling Phase = "reconciling" // starting executors, moving traffic
	Trying      Phase = "trying"      // another generation has a share of the requests
	Serving     Phase = "serving"
	Draining    Phase = "draining" // finishing what is under way
	Drained     Phase = "drained"  // runs nothing; apply or rescale resumes
	Deleted     Phase = "deleted"
)
