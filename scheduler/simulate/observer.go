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
