package simulate

import "time"

// Observer is told what happens. Functions that are nil are not called.
type Observer struct {
	// Batch is called when a batch has been computed.
	Batch func(Batch)
}

// Batch is a batch that has been computed on a device.
type Batch struct {
	Device   int // from 0, in the order of Result.Devices
	Pipeline string
	Module   string
	Size     int
	Begin    time.Duration
	End      time.Duration
	Oldest   time.Duration // when the first of it became ready
}

// span describes a batch that ends now.
func (e *engine) span(f *flight) Batch {
	first := &e.items[f.items[0]]
	a := &e.apps[first.app]
	b := Batch{
		Device: int(e.stations[f.station].lanes[f.lane].device), Pipeline: a.name, Module: a.nodes[first.node].Module,
		Size: len(f.items), Begin: f.begun, End: e.now, Oldest: first.ready,
	}
	for _, i := range f.items {
		b.Oldest = min(b.Oldest, e.items[i].ready)
	}
	return b
}
