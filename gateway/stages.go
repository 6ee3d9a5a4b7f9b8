package gateway

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// Stages says where the time of an answered request went. The critical path is
// found backwards: from the item that completed the outputs to the one whose
// end made it ready, and so on to the arrival. Each of its stages takes the
// time since the end of the one before, the last also what follows; what is
// neither queue nor wait nor compute is transfer. So the parts of the critical
// stages add up to the time from arrival to now exactly.
//
// A stage off the path stands for its item that ended last, a critical stage
// for the item on the path.
func (r *Request) Stages(now dispatch.Time) []wire.Stage {
	stages := make([]wire.Stage, 0, len(r.Graph.Nodes))
	for i, n := range r.Graph.Nodes {
		s := wire.Stage{Module: n.Name, Items: r.counts[i].items}
		if it := r.counts[i].last; it != nil {
			s.Batch = int(it.Batch)
			account(&s, it, it.Ready, it.Ended)
		}
		stages = append(stages, s)
	}
	end := now
	for it := r.last; it != nil; it = it.cause {
		begin := r.Arrival
		if it.cause != nil {
			begin = it.cause.Ended
		}
		s := &stages[it.Node.index]
		s.Critical = true
		account(s, it, begin, end)
		end = begin
	}
	return stages
}

// account splits the span from begin to end, which holds the item's own.
func account(s *wire.Stage, it *Item, begin, end dispatch.Time) {
	s.Queue, s.Wait, s.Compute = it.Queue, it.Wait, it.Compute
	s.Transfer = end - begin - it.Queue - it.Wait - it.Compute
}
