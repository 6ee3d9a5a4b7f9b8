package simulate

import (
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// addAdmission makes a planned pipeline known to admission control.
func (e *engine) addAdmission(at int, declared *pipelines.Pipeline, p *plan.Plan) {
	a := &e.loads[at]
	var modules []string
	for i := range a.nodes {
		modules = append(modules, a.nodes[i].Module)
	}
	devices := func(module string, group int) (list []int) {
		for i := range a.nodes {
			if a.nodes[i].Module != module {
				continue
			}
			for _, l := range e.stations[a.nodes[i].station].lanes {
				if int(l.group) == group {
					list = append(list, int(l.device))
				}
			}
		}
		return list
	}
	if e.admission == nil {
		e.admission = new(admission.Controller)
	}
	a.number = e.admission.Add(flow.AdmissionService(declared, p, modules, devices))
}

// admit decides whether a request that comes now is taken in.
func (e *engine) admit(at int32, arrival Time) bool {
	if e.admission == nil {
		return true
	}
	deadline := max(1, arrival+e.loads[at].slo)
	if !e.admission.Admit(e.now, e.loads[at].number, deadline) {
		return false
	}
	e.admission.Enter(e.loads[at].number) // its items wait before anything else comes
	return true
}

// leave tells admission control how a request ended.
func (e *engine) leave(at int32, arrival Time, answered bool) {
	if e.admission != nil {
		deadline := max(1, arrival+e.loads[at].slo)
		how := admission.InTime
		switch {
		case !answered:
			how = admission.GivenUp
		case e.now > deadline:
			how = admission.Late
		}
		e.admission.Leave(e.now, e.loads[at].number, deadline, how)
	}
}

// fits says whether so many items that a request was split into can be in time.
func (e *engine) fits(a *loadState, node int32, k int, arrival Time) bool {
	return e.admission == nil || e.dropping != "" || e.admission.Fits(e.now, a.number, int(node), k, max(1, arrival+a.slo-a.nodes[node].Keep.Least))
}

// countSpent tells admission control what devices have done for a request that is over.
func (e *engine) countSpent(at int32, took Time, useful bool) {
	if e.admission != nil {
		e.admission.Spent(e.now, e.loads[at].number, took, useful)
	}
}

// countWaiting counts an item into the queue of its module, or out of it.
func (e *engine) countWaiting(it *item, n int) {
	if e.admission != nil {
		e.admission.Wait(e.loads[it.load].number, int(it.node), n)
	}
}

// batchEnded notes that a batch has come back, or was lost where its time is zero.
func (e *engine) batchEnded(items []int32, group int, sent, took, all Time) {
	if e.admission == nil || len(items) == 0 {
		return
	}
	first := &e.items[items[0]]
	e.admission.Returned(e.loads[first.load].number, int(first.node), len(items), sent)
	e.admission.Learn(e.now, e.loads[first.load].number, int(first.node), group, len(items), took, all)
}
