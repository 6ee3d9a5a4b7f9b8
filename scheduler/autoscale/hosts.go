package autoscale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// HostOptions are what a provisioner is declared with.
type HostOptions struct {
	Hardware string
	Min, Max int           // hosts
	Devices  int           // that each offers
	Idle     time.Duration // not needed for so long a host is ended
	Join     time.Duration // so long a host may be without being part of the fleet
}

// Host is the state of one host as the driver and the fleet report it.
type Host struct {
	Name    string
	Made    bool      // by the driver; others are left alone
	Since   time.Time // it was begun
	Ended   string    // why it lives no more, or never did; empty where it may live
	Going   bool      // to delete it has begun
	Present bool      // in the fleet
	Leaving bool      // about to go
	Devices int       // of the hardware, that it offers
	Used    int       // of them, reserved
}

// HostsSeen is what there is at one moment.
type HostsSeen struct {
	Hosts  []Host // that were made, and all others of the fleet with the hardware
	Wanted int    // hosts that services need beyond those of the fleet
}

// HostVerb is what to do with a host.
type HostVerb string

// The actions.
const (
	Create HostVerb = "create"
	Drain  HostVerb = "drain" // have it leave the fleet: services move what they run there
	Delete HostVerb = "delete"
)

// HostAction is one thing to do. While it is under way nothing else is begun with the host.
type HostAction struct {
	What HostVerb
	Host string
}

// How long to wait after a failure; doubled with each in a row.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// Hosts is what is remembered between two looks. All of it may be lost: then times begin
// again.
type Hosts struct {
	Options HostOptions

	busy    map[string]HostAction
	begun   map[string]time.Time // of hosts that are being made, which the driver may not list yet
	idle    map[string]time.Time // since when a host has not been needed
	absent  map[string]time.Time // since when a host has not been part of the fleet
	left    map[string]bool      // hosts that were drained: their end is no failure
	tries   map[string]tries     // of deleting a host
	last    int                  // the highest number of a host
	creates tries
}

// tries counts failures in a row.
type tries struct {
	failed int
	at     time.Time // of the latest
	after  time.Time // not before then again
	why    string
}

func (t tries) fail(now time.Time, why string) tries {
	t.failed++
	t.at, t.after, t.why = now, now.Add(min(firstRetry<<min(t.failed-1, 10), lastRetry)), why
	return t
}

// NewHosts begins with nothing remembered.
func NewHosts(o HostOptions) *Hosts {
	return &Hosts{
		Options: o, busy: map[string]HostAction{}, begun: map[string]time.Time{}, idle: map[string]time.Time{},
		absent: map[string]time.Time{}, left: map[string]bool{}, tries: map[string]tries{},
	}
}

// hostName is that of the n-th host of a kind of hardware.
func hostName(hardware string, n int) string { return fmt.Sprintf("%s-%d", hardware, n) }

// HostNumber is which host of the kind has the name; false for one that is named otherwise.
func HostNumber(hardware, name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, hardware+"-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && hostName(hardware, n) == name
}

// Observe reports what to begin now.
func (h *Hosts) Observe(now time.Time, seen HostsSeen) (todo []HostAction) {
	hosts := h.all(seen)
	begin := func(what HostVerb, host string) {
		a := HostAction{what, host}
		h.busy[host] = a
		todo = append(todo, a)
	}
	for i := range hosts {
		one := &hosts[i]
		if _, busy := h.busy[one.Name]; busy || !one.Made {
			continue
		}
		if h.over(now, one) && !now.Before(h.tries[one.Name].after) {
			begin(Delete, one.Name)
		}
	}
	for range h.missing(now, hosts, seen.Wanted) {
		h.last++
		name := hostName(h.Options.Hardware, h.last)
		h.begun[name] = now
		begin(Create, name)
	}
	for _, name := range h.spare(now, hosts, seen.Wanted) {
		h.left[name] = true
		begin(Drain, name)
	}
	h.forget(hosts)
	return todo
}

// all are the hosts with those that are being made, by name.
func (h *Hosts) all(seen HostsSeen) []Host {
	all := slices.Clone(seen.Hosts)
	for i := range all {
		one := &all[i]
		if h.busy[one.Name].What == Create {
			one.Ended = "" // stale: it is being made
		}
		if n, ok := HostNumber(h.Options.Hardware, one.Name); ok {
			h.last = max(h.last, n)
		}
	}
	for name, since := range h.begun {
		if !slices.ContainsFunc(all, func(one Host) bool { return one.Name == name }) {
			all = append(all, Host{Name: name, Made: true, Since: since})
		}
	}
	slices.SortFunc(all, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// over reports that a host is to be deleted, and remembers why where that is a failure.
func (h *Hosts) over(now time.Time, one *Host) bool {
	switch {
	case one.Going:
		return true
	case h.left[one.Name]: // drained on purpose
		return !one.Present || one.Ended != ""
	case one.Ended != "":
		h.failed(now, one.Name, one.Ended)
		return true
	case one.Present:
		delete(h.absent, one.Name)
		if one.Since.After(h.creates.at) {
			h.creates = tries{} // hosts can be had
		}
		return false
	}
	if _, known := h.absent[one.Name]; !known {
		h.absent[one.Name] = now
	}
	if now.Sub(h.absent[one.Name]) < h.Options.Join {
		return false
	}
	h.failed(now, one.Name, fmt.Sprintf("it has not been part of the fleet for %v", h.Options.Join))
	return true
}

// failed notes once why a host could not be had.
func (h *Hosts) failed(now time.Time, host, why string) {
	if why = host + ": " + why; why != h.creates.why {
		h.creates = h.creates.fail(now, why)
	}
}

// missing is how many hosts to begin to make.
func (h *Hosts) missing(now time.Time, hosts []Host, wanted int) int {
	made, stay, pending := 0, 0, 0
	for i := range hosts {
		one := &hosts[i]
		if !one.Made {
			continue
		}
		made++
		if h.goes(one) {
			continue
		}
		stay++
		if !one.Present {
			pending++
		}
	}
	if now.Before(h.creates.after) {
		return 0
	}
	return max(0, min(max(wanted-pending, h.Options.Min-stay), h.Options.Max-made))
}

// goes reports that a host is about to go or gone.
func (h *Hosts) goes(one *Host) bool {
	return one.Going || one.Ended != "" || one.Leaving || h.left[one.Name] || h.busy[one.Name].What == Delete
}

// spare are hosts to drain: those that nothing has used for long; else one whose use has
// long fitted elsewhere, while no other leaves.
func (h *Hosts) spare(now time.Time, hosts []Host, wanted int) (names []string) {
	stay, free, quiet := 0, 0, wanted <= 0
	for i := range hosts {
		one := &hosts[i]
		switch {
		case h.goes(one):
			quiet = quiet && !one.Present // what it runs still needs room
		case one.Present:
			free += max(0, one.Devices-one.Used)
			if one.Made {
				stay++
			}
		case one.Made:
			quiet = false // a service waits for it
		}
	}
	var able []Host
	for i := range hosts {
		one := &hosts[i]
		needed := !one.Made || !one.Present || h.goes(one) || one.Used > 0 && one.Used > free-max(0, one.Devices-one.Used)
		if needed || wanted > 0 {
			delete(h.idle, one.Name)
			continue
		}
		if _, known := h.idle[one.Name]; !known {
			h.idle[one.Name] = now
		}
		if now.Sub(h.idle[one.Name]) >= h.Options.Idle {
			able = append(able, *one)
		}
	}
	slices.SortFunc(able, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(b.Since.UnixNano(), a.Since.UnixNano()), strings.Compare(b.Name, a.Name))
	})
	for _, one := range able {
		if !quiet || stay <= h.Options.Min || one.Used > 0 && len(names) > 0 {
			break
		}
		names = append(names, one.Name)
		stay--
	}
	return names
}

// forget drops what is known of hosts that are no more.
func (h *Hosts) forget(hosts []Host) {
	there := map[string]bool{}
	for i := range hosts {
		there[hosts[i].Name] = true
	}
	keep(h.idle, there)
	keep(h.absent, there)
	keep(h.left, there)
	keep(h.tries, there)
}

func keep[V any](known map[string]V, there map[string]bool) {
	maps.DeleteFunc(known, func(name string, _ V) bool { return !there[name] })
}

// Done reports how an action has ended; err is nil when it succeeded.
func (h *Hosts) Done(now time.Time, a HostAction, err error) {
	delete(h.busy, a.Host)
	switch a.What {
	case Create:
		delete(h.begun, a.Host)
		if err != nil {
			h.failed(now, a.Host, err.Error())
		}
	case Drain:
		if err != nil { // the fleet did not get it
			delete(h.left, a.Host)
		}
	case Delete:
		if err != nil {
			h.tries[a.Host] = h.tries[a.Host].fail(now, err.Error())
		} else {
			delete(h.tries, a.Host)
			delete(h.left, a.Host)
		}
	}
}

// HostsStatus is how a provisioner is, for people and programs.
type HostsStatus struct {
	Hardware string       `json:"hardware"`
	Min      int          `json:"min"`
	Max      int          `json:"max"`
	Devices  int          `json:"devices"` // of a host
	Wanted   int          `json:"wanted"`  // hosts that services need beyond those of the fleet
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

// Status reports how everything is by what was seen last.
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
