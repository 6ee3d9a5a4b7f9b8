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
	Group    int           // of the executor, as its policy knows it
	Requests []Request     // what it held; valid until the call returns
}

// Request is the part of a request that a batch held.
type Request struct {
	Load  int           // whose it is, from 0
	Ready time.Duration // when it became ready for the module
}

// span describes a batch that ends now.
func (e *engine) span(f *flight) Batch {
	first := &e.items[f.items[0]]
	a, l := &e.loads[first.load], &e.stations[f.station].lanes[f.lane]
	b := Batch{
		Device: int(l.device), Pipeline: a.name, Module: a.nodes[first.node].Module,
		Size: int(f.size), Begin: f.begun, End: e.now, Oldest: first.ready, Group: int(l.group),
	}
	e.seen = e.seen[:0]
	for _, i := range f.items {
		it := &e.items[i]
		b.Oldest = min(b.Oldest, it.ready)
		e.seen = append(e.seen, Request{Load: int(it.load), Ready: it.ready})
	}
	b.Requests = e.seen
	return b
}
