package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Fleet is what services may run on.
type Fleet struct {
	// Devices exist; nil means as many as the hardware blocks of the specs declare.
	Devices []placement.Device

	// Held are the slots of services that are not among the specs. They stay
	// where they are.
	Held []placement.Slot

	// Transfer is the longest that nearly every batch is on its way from a gateway to an
	// executor and back, whichever host that is on; see autoscale.Transfers. 0 where it is
	// not known, or no more than the margin that dispatchers keep.
	Transfer time.Duration `json:",omitempty"`

	// Offers are hosts that can be made on demand.
	Offers []Offer `json:",omitempty"`
}

// Offer is hardware that can be had by the host.
type Offer struct {
	Hardware string
	Devices  int // of a host
	Hosts    int // that can be had
}

// offers reports whether more devices of the hardware can be had.
func (f Fleet) offers(hardware string) bool {
	return slices.ContainsFunc(f.Offers, func(o Offer) bool { return o.Hardware == hardware && o.Hosts > 0 })
}

// available is the declared hardware that the fleet has, with no more of each
// kind than there is.
func (f Fleet) available(declared []pipelines.Hardware) []pipelines.Hardware {
	if f.Devices == nil {
		return declared
	}
	count := map[string]int{}
	for _, d := range f.Devices {
		count[d.Hardware]++
	}
	var all []pipelines.Hardware
	for _, h := range declared {
		if n := count[h.Name]; n > 0 {
			if h.Count == 0 || n < h.Count {
				h.Count = n
			}
			all = append(all, h)
		}
	}
	return all
}

// device names a device in the whole fleet.
type device struct{ host, name string }

// shared are the devices of the hardware that others hold with groups whose times
// are known, so that what is left can be planned with. A device on which something runs
// without a known period, in bursts, or several batches at a time is left out.
func (f Fleet) shared(hardware []pipelines.Hardware) []plan.HeldDevice {
	var order []device
	found := map[device]*plan.HeldDevice{}
	unknown := map[device]bool{}
	for _, s := range f.Held {
		at := device{s.Host, s.Device}
		d := found[at]
		if d == nil {
			i := slices.IndexFunc(hardware, func(h pipelines.Hardware) bool { return h.Name == s.Hardware })
			if i < 0 {
				continue
			}
			d = &plan.HeldDevice{Device: plan.Device{Hardware: s.Hardware, Price: hardware[i].Price}}
			found[at], order = d, append(order, at)
		}
		d.Memory += s.Memory
		if s.Rides {
			continue
		}
		if s.Period <= 0 || s.Deadline <= 0 || s.Bursts || s.Concurrency > 1 {
			unknown[at] = true
			continue
		}
		task := plan.Task{
			Pipeline: s.Pipeline, Module: s.Module, Group: s.Group, Duration: s.Duration, Period: s.Period, Deadline: s.Deadline,
			Share: s.Duration.Seconds() * float64(max(1, s.AtOnce)) / s.Period.Seconds(), AtOnce: s.AtOnce,
		}
		d.Tasks, d.Share = append(d.Tasks, task), d.Share+task.Share
	}
	var all []plan.HeldDevice
	for _, at := range order {
		if !unknown[at] && len(found[at].Tasks) > 0 {
			all = append(all, *found[at])
		}
	}
	return all
}

// holders are the services that hold devices of the hardware, but for those among the specs.
func (f Fleet) holders(hardware string) (names []string) {
	for _, s := range f.Held {
		if s.Hardware == hardware {
			names = append(names, s.Pipeline)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// occupied counts the devices that others hold, by hardware.
func (f Fleet) occupied() map[string]int {
	count := map[string]int{}
	seen := map[device]bool{}
	for _, s := range f.Held {
		if at := (device{s.Host, s.Device}); !seen[at] {
			seen[at] = true
			count[s.Hardware]++
		}
	}
	return count
}

// With is the fleet with the Hosts of every offer added.
func (f Fleet) With(offers []Offer) Fleet {
	f.Devices, f.Offers = slices.Clone(f.Devices), nil
	for _, o := range offers {
		for n := range o.Hosts {
			for k := range o.Devices {
				f.Devices = append(f.Devices, placement.Device{Host: fmt.Sprintf("%s, offered %d", o.Hardware, n), Name: fmt.Sprint(k), Hardware: o.Hardware})
			}
		}
	}
	return f
}

// Missing returns how many hosts of each offer suffice, as few as possible of the first,
// then of the next; none where the fleet suffices as it is. enough returns why a fleet does
// not suffice, and must stay nil with more hosts; its error for all that is offered is
// returned.
func (f Fleet) Missing(enough func(Fleet) error) ([]Offer, error) {
	need := slices.Clone(f.Offers)
	if err := enough(f.With(need)); err != nil {
		return nil, err
	}
	for i := range need {
		low, high := -1, need[i].Hosts // not enough, and enough
		for high-low > 1 {
			need[i].Hosts = (low + high) / 2
			if enough(f.With(need)) == nil {
				high = need[i].Hosts
			} else {
				low = need[i].Hosts
			}
		}
		need[i].Hosts = high
	}
	return slices.DeleteFunc(need, func(o Offer) bool { return o.Hosts == 0 }), nil
}
