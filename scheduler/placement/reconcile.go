package placement

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Changes lead from what runs to what is desired. Whoever applies them makes
// before breaking: Start, then move traffic, then Stop.
type Changes struct {
	Start []Slot // desired and not running
	Keep  []Slot // running and desired, as desired: group, window and share may be new
	Stop  []Slot // running and not desired, as they run
}

// Reconcile compares by executor name. Every desired slot is in Start or Keep,
// every actual one in Keep or Stop; the order is that of the arguments.
func Reconcile(desired, actual []Slot) Changes {
	var c Changes
	wanted := make(map[string]bool, len(desired))
	for _, s := range desired {
		wanted[s.Executor] = true
	}
	running := make(map[string]bool, len(actual))
	for _, s := range actual {
		running[s.Executor] = true
		if !wanted[s.Executor] {
			c.Stop = append(c.Stop, s)
		}
	}
	for _, s := range desired {
		if running[s.Executor] {
			c.Keep = append(c.Keep, s)
		} else {
			c.Start = append(c.Start, s)
		}
	}
	return c
}

// Empty reports that nothing is to be started or stopped.
func (c Changes) Empty() bool { return len(c.Start) == 0 && len(c.Stop) == 0 }

// Describe writes one line a slot: + to start, = to keep, - to stop.
func (c Changes) Describe() string {
	var b strings.Builder
	for _, part := range []struct {
		sign  string
		slots []Slot
	}{{"+", c.Start}, {"=", c.Keep}, {"-", c.Stop}} {
		for i := range part.slots {
			fmt.Fprintf(&b, "%s %s\n", part.sign, part.slots[i].Describe())
		}
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

// Describe writes a slot as one line.
func (s Slot) Describe() string {
	return fmt.Sprintf("%s/%s on %s/%s, batch %d, %s of the device", s.Pipeline, s.Module, s.Host, s.Device, s.Batch, percent(s.Share))
}

// Describe writes one line a slot, then one a device.
func (p Placement) Describe() string {
	var b strings.Builder
	for i := range p.Slots {
		fmt.Fprintf(&b, "%s\n", p.Slots[i].Describe())
	}
	for _, l := range p.Loads {
		fmt.Fprintf(&b, "device %s: %s used", l.Device.place(), percent(l.Share))
		if l.Memory > 0 {
			fmt.Fprintf(&b, ", %d MiB", mebibytes(l.Memory))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Identity reports when a module stays the same from one deployment to the next, so
// that waiting items of the one may run on executors of the other.
func Identity(d *Deployment, module string) string {
	if d.Function != nil {
		return "function" // requests wait for any generation of it
	}
	digest := ""
	for _, s := range d.Slots {
		if s.Module == module {
			digest = s.Model
			break
		}
	}
	m := d.Pipeline.Module(module)
	var inputs, constants []string
	for _, b := range m.Inputs {
		if b.IsConstant() {
			constants = append(constants, fmt.Sprintf("%s=%v", b.Name, b.Value))
			continue
		}
		inputs = append(inputs, b.Name)
	}
	slices.Sort(inputs)
	inputs = append(inputs, constants...)
	same := fmt.Sprintf("%s|%s|%s|%s|%v|%v", digest, m.Function, m.Model, strings.Join(inputs, ","), m.Unbatched, m.BatchAxis)
	if m.State {
		same += "|state"
	}
	return same
}

// content encodes everything that an executor keeps for life: pipeline, module, device,
// batch, concurrency where it is above one, and, shortened, engine and model. What may
// change while it runs (group, window, share) is not in it.
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
// by its content and by the number of the start, so that it is not mistaken for one that
// was started before and has not gone yet. Further ones that are equal in all of this get a
// number appended.
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
