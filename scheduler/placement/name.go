package placement

import (
	"fmt"
	"hash/fnv"
)

// content says everything that an executor keeps for life: pipeline, module,
// device, batch, concurrency where it is above one, and, shortened, engine and model. What may change while it
// runs (group, window, share) is not in it.
func (s *Slot) content() string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", s.Engine, s.Model) // a hash takes everything
	size := fmt.Sprint(s.Batch)
	if s.Concurrency > 1 {
		size += fmt.Sprintf("x%d", s.Concurrency)
	}
	return fmt.Sprintf("%s/%s@%s/%s#b%s-%08x", s.Pipeline, s.Module, s.Host, s.Device, size, h.Sum32())
}

// name names the slots of a placement. An executor that runs and has the same content
// keeps its name when a new plan uses it differently. One that is to be started is named
// by its content and by the number of the start, so that nobody takes one for it that
// was started before and has not gone yet. Further ones that are equal in all of this get
// a number appended.
func name(slots, actual []Slot, start int) {
	running := make(map[string][]string, len(actual)) // names by content
	used := make(map[string]bool, len(slots))
	for i := range actual {
		content := actual[i].content()
		running[content] = append(running[content], actual[i].Executor)
		used[actual[i].Executor] = true
	}
	for i := range slots {
		content := slots[i].content()
		if same := running[content]; len(same) > 0 {
			slots[i].Executor, running[content] = same[0], same[1:]
			continue
		}
		if start > 0 {
			content = fmt.Sprintf("%s:%d", content, start)
		}
		name := content
		for n := 2; used[name]; n++ {
			name = fmt.Sprintf("%s.%d", content, n)
		}
		slots[i].Executor, used[name] = name, true
	}
}
