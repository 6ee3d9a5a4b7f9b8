package autoscale

import (
	"fmt"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// HostsStatus is how a provisioner is, for people and programs.
type HostsStatus struct {
	Hardware string       `json:"hardware"`
	Min      int          `json:"min"`
	Max      int          `json:"max"`
	Devices  int          `json:"devices"` // of a host
	Wanted   int          `json:"wanted"`  // hosts that services ask for beyond those of the fleet
	Hosts    []HostStatus `json:"hosts"`   // that were made
	Waits    string       `json:"waits,omitempty"`
	Problem  string       `json:"problem,omitempty"` // why the latest host could not be had
}

// HostStatus is how a host that was made is.
type HostStatus struct {
	Name    string    `json:"name"`
	State   HostState `json:"state"`
	Devices int       `json:"devices,omitempty"` // that it offers
	Used    int       `json:"used,omitempty"`    // of these, reserved
	Problem string    `json:"problem,omitempty"`
}

// HostState of a host.
type HostState string

// The states.
const (
	Making  HostState = "being made"
	Joining HostState = "awaited" // it was made, and is not part of the fleet yet
	Serving HostState = "present"
	Leaving HostState = "leaving" // services move what they run there
	Ending  HostState = "being ended"
)

// Status tells how everything is by what was seen last.
func (h *Hosts) Status(now time.Time, seen HostsSeen) HostsStatus {
	s := HostsStatus{Hardware: h.Options.Hardware, Min: h.Options.Min, Max: h.Options.Max, Devices: h.Options.Devices, Wanted: seen.Wanted, Hosts: []HostStatus{}, Problem: h.creates.why}
	hosts := h.all(seen)
	for i := range hosts {
		if one := &hosts[i]; one.Made {
			s.Hosts = append(s.Hosts, h.status(one))
		}
	}
	switch {
	case h.creates.failed > 0 && now.Before(h.creates.after):
		s.Waits = fmt.Sprintf("tries again in %v", h.creates.after.Sub(now).Round(time.Second))
	case seen.Wanted > 0 && len(s.Hosts) >= h.Options.Max:
		s.Waits = fmt.Sprintf("%s wanted, and there are as many as allowed", quantity.Count(seen.Wanted, "more host"))
	}
	return s
}

func (h *Hosts) status(one *Host) HostStatus {
	s := HostStatus{Name: one.Name, State: Joining, Devices: one.Devices, Used: one.Used}
	switch {
	case h.busy[one.Name].What == Create:
		s.State = Making
	case one.Going || one.Ended != "" || h.busy[one.Name].What == Delete:
		s.State = Ending
	case one.Leaving || h.left[one.Name]:
		s.State = Leaving
	case one.Present:
		s.State = Serving
		if one.Devices < h.Options.Devices {
			s.Problem = fmt.Sprintf("it offers %d of the %s that are declared", one.Devices, quantity.Count(h.Options.Devices, h.Options.Hardware))
		}
	}
	if t := h.tries[one.Name]; t.failed > 0 {
		s.Problem = "it could not be deleted, which is tried again: " + t.why
	}
	return s
}

// Describe is the status in a few lines.
func (s HostsStatus) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "provisioner %s: %s of %d to %d", s.Hardware, quantity.Count(len(s.Hosts), "host"), s.Min, s.Max)
	if s.Wanted > 0 {
		fmt.Fprintf(&b, ", %d more wanted", s.Wanted)
	}
	if s.Waits != "" {
		fmt.Fprintf(&b, "; %s", s.Waits)
	}
	b.WriteString("\n")
	if s.Problem != "" {
		fmt.Fprintf(&b, "  the latest failure: %s\n", s.Problem)
	}
	for _, one := range s.Hosts {
		fmt.Fprintf(&b, "  %s: %s", one.Name, one.State)
		if one.Devices > 0 {
			fmt.Fprintf(&b, ", %d of %s used", one.Used, quantity.Count(one.Devices, "device"))
		}
		if one.Problem != "" {
			fmt.Fprintf(&b, "; %s", one.Problem)
		}
		b.WriteString("\n")
	}
	return b.String()
}
