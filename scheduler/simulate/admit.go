package simulate

import (
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// guard enters a planned pipeline at the door.
func (e *engine) guard(at int, declared *pipelines.Pipeline, p *plan.Plan) {
	a := &e.apps[at]
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
	if e.door == nil {
		e.door = new(admission.Controller)
	}
	a.number = e.door.Add(timing.Admission(declared, p, modules, devices))
}

// admit decides whether a request that comes now is taken in.
func (e *engine) admit(at int32, arrival Time) bool {
	if e.door == nil {
		return true
	}
	deadline := max(1, arrival+e.apps[at].slo)
	if !e.door.Admit(e.now, e.apps[at].number, deadline) {
		return false
	}
	e.door.Enter(e.apps[at].number) // its items wait before anything else comes
	return true
}

// left counts a request out.
func (e *engine) left(at int32, arrival Time, answered bool) {
	if e.door != nil {
		deadline := max(1, arrival+e.apps[at].slo)
		how := admission.InTime
		switch {
		case !answered:
			how = admission.GivenUp
		case e.now > deadline:
			how = admission.Late
		}
		e.door.Leave(e.now, e.apps[at].number, deadline, how)
	}
}

// pressure of a pipeline.
func (e *engine) pressure(at int32) float64 {
	if e.door == nil {
		return 0
	}
	return e.door.Pressure(e.apps[at].number)
}

// waits counts an item into the queue of its module, or out of it.
func (e *engine) waits(it *item, n int) {
	if e.door != nil {
		e.door.Wait(e.apps[it.app].number, int(it.node), n)
	}
}

// ended notes that a batch has come back, or was lost where its time is zero.
func (e *engine) ended(items []int32, group int, took, all Time) {
	if e.door == nil || len(items) == 0 {
		return
	}
	first := &e.items[items[0]]
	e.door.Back(e.apps[first.app].number, int(first.node), len(items))
	e.door.Learn(e.now, e.apps[first.app].number, int(first.node), group, len(items), took, all)
}
