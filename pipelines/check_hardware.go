package pipelines

import (
	"math"
	"slices"
)

func (v *validator) hardware(h *Hardware) {
	path := "hardware." + h.Name
	if (!(h.Price > 0) || !IsFinite(h.Price)) && !v.missing(path+".price") {
		v.errorf(path+".price", "Invalid price", "The price of a device must be above zero, in money per hour: plans are compared by cost.")
	}
	if h.Count < 0 {
		v.errorf(path+".count", "Invalid count", "A count of devices cannot be negative; leave it out where there is no limit.")
	}
	if h.Cores < 0 {
		v.errorf(path+".cores", "Invalid cores", "A device is made of at least one core; leave cores out where it is no part of a processor.")
	}
	if h.Memory < 0 {
		v.errorf(path+".memory", "Invalid memory", "Memory cannot be negative.")
	}
	if h.Interruptions < 0 || h.Interruptions > MaxInterruptions || math.IsNaN(h.Interruptions) {
		v.errorf(path+".interruptions", "Invalid interruptions", "Interruptions are how often one device is taken back, per hour: from 0 to %d. 20 %% a month are 0.0003.", MaxInterruptions)
	}
	if h.Recovery < 0 || h.Recovery > MaxDuration {
		v.errorf(path+".recovery", "Invalid recovery", "The recovery is how long until another device serves in the place of one that was taken back, at most a day.")
	}
	if m := h.Listed.Market; m != "" && !slices.Contains(Markets(), m) {
		v.errorf(path+".market", "Unknown market", "Devices are rented on market %s.%s", Quoted(Markets()), v.suggest(m, Markets()))
	}
}

// lasting finds hardware that is taken back, where plans count on it to stay.
func (v *validator) lasting(names []string, path, kind string) {
	for _, name := range names {
		if h := v.doc.HardwareNamed(name); h.Interruptions > 0 {
			v.errorf(path, "Hardware that is interrupted", "Plans of a %s count on devices that stay, and %q is taken back %v times an hour. Declare it without interruptions to take that risk, or rent it on demand.", kind, name, h.Interruptions)
		}
	}
}
