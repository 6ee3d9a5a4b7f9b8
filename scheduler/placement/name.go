package placement

import (
	"fmt"
	"hash/fnv"
)

// name says everything that an executor keeps for life: pipeline, module,
// device, batch, concurrency where it is above one, and, shortened, engine and model. What may change while it
// runs (group, window, share) is not in it, so an executor keeps its name when
// a new plan uses it differently. A second executor that is equal in all of
// this gets a number appended.
func (s *Slot) name() string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", s.Engine, s.Model) // a hash takes everything
	size := fmt.Sprint(s.Batch)
	if s.Concurrency > 1 {
		size += fmt.Sprintf("x%d", s.Concurrency)
	}
	return fmt.Sprintf("%s/%s@%s/%s#b%s-%08x", s.Pipeline, s.Module, s.Host, s.Device, size, h.Sum32())
}
