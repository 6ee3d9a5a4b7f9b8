package placement

import (
	"fmt"
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

// Empty says that nothing is to be started or stopped.
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
