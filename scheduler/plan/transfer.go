package plan

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Transferred is the pipeline as a gateway sees it whose batches are on their way to an
// executor and back for so long: until the answer is there, the executor gets no other
// batch, and the item goes nowhere else. So every batch takes that much longer, in its
// part of the objective and of its machine alike.
func Transferred(p pipelines.Pipeline, transfer time.Duration) pipelines.Pipeline {
	if transfer <= 0 {
		return p
	}
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		points := slices.Clone(p.Modules[i].Profile.Points)
		for k := range points {
			points[k].Duration += transfer
		}
		p.Modules[i].Profile.Points = points
	}
	return p
}

// Count says in the plan of a pipeline that was Transferred that it counts on it.
func (p *Plan) Count(transfer time.Duration) {
	if p.Transfer = max(0, transfer); p.Transfer > 0 && p.Status == Infeasible {
		p.Reason += " (" + quantity.Duration(p.Transfer) + " of that at every module for the way to executors and back, as measured)"
	}
}
