package scheduler

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// With is the fleet with so many more hosts of every offer, as its Hosts say.
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

// Missing is how many hosts of what is offered would do, the least of the first offer,
// then of the next: none where the fleet is enough as it is. enough says why one is not;
// the error is what it says of all that can be had. It is taken that who has enough has
// it with more as well.
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
