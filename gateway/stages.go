package gateway

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// stages says where the time of an answered request went. The critical path is
// found backwards: from the item that completed the outputs to the one whose
// end made it ready, and so on to the arrival. Each of its stages takes the
// time since the end of the one before, the last also what follows; what is
// neither queue nor wait nor compute is transfer. So the parts of the critical
// stages add up to the time from arrival to now exactly.
//
// A stage off the path stands for its item that ended last, a critical stage
// for the item on the path.
func (r *request) stages(now dispatch.Time) []wire.Stage {
	stages := make([]wire.Stage, 0, len(r.graph.nodes))
	for i, n := range r.graph.nodes {
		s := wire.Stage{Module: n.Module, Items: r.counts[i].items}
		if r.function != nil {
			s.Module = r.function.app.stage
		}
		if it := r.counts[i].last; it != nil {
			s.Batch = int(it.batch)
			account(&s, it, it.ready, it.end)
		}
		stages = append(stages, s)
	}
	end := now
	for it := r.last; it != nil; it = it.cause {
		begin := r.arrival
		if it.cause != nil {
			begin = it.cause.end
		}
		s := &stages[it.node.index]
		s.Critical = true
		account(s, it, begin, end)
		end = begin
	}
	return stages
}

// account splits the span from begin to end, which holds the item's own.
func account(s *wire.Stage, it *item, begin, end dispatch.Time) {
	s.Queue, s.Wait, s.Compute = it.queue, it.wait, it.compute
	s.Transfer = end - begin - it.queue - it.wait - it.compute
}
