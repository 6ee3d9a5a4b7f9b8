package simulate

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
)

// Result is what a simulation saw. Requests that came during a warm-up are not
// counted anywhere.
type Result struct {
	Pipelines []PipelineResult
	Devices   []DeviceResult
	Duration  time.Duration // in which requests came and were counted
	Events    int64         // that were played
	Sizes     []Size        // of a cluster that was scaled, in order of time

	// Misses is the number of requests, over all pipelines, that were not
	// answered in time; Cut says that the run ended early because of them.
	Misses int64
	Cut    bool
}

// Counts say what became of requests: each has exactly one outcome.
//
//	Requests = Completed + Late + Dropped + Refused
type Counts struct {
	Requests  int64
	Completed int64 // answered within the objective
	Late      int64 // answered after it
	Dropped   int64 // given up because they could no longer be in time, or lost with two devices
	Refused   int64 // turned away because a queue was full
}

// PipelineResult is what became of the requests of one pipeline.
type PipelineResult struct {
	Pipeline string
	Dispatch string
	Arrivals string
	Seed     uint64
	Rate     float64 // offered, requests per second
	SLO      time.Duration
	Counts
	Attainment  float64               // Completed over Requests; 1 without requests
	Interval    Interval              // that holds the attainment of a run without end
	Latency     histogram.Percentiles // of what was answered, off by at most 0.2 %
	MeanBatch   float64
	Devices     int      // that serve the pipeline
	Utilisation float64  // of these, on average: share of time with a batch on it
	Goodput     *Goodput // where it was asked for
	Wasted      float64  // of the time that devices computed: the share for requests that were not in time
	Modules     []ModuleResult
}

// ModuleResult is what became of the items of one module.
//
//	Items = Completed + Late + Dropped + Refused + Withdrawn
type ModuleResult struct {
	Module    string
	Items     int64
	Completed int64 // in time for the modules below
	Late      int64
	Dropped   int64
	Refused   int64
	Withdrawn int64                 // taken back while they waited: their request had failed elsewhere
	Rate      float64               // items per second
	Latency   histogram.Percentiles // from ready to computed
	MeanBatch float64
	Batches   int64
	Budget    time.Duration
	Behind    time.Duration // the most by which an item left after its budget; negative where none did
}

// DeviceResult is what one device did.
type DeviceResult struct {
	Device      string
	Hardware    string
	Utilisation float64
	Batches     int64
}

// Least is the attainment of the pipeline that attains least; 1 without any.
func (r Result) Least() float64 {
	least := 1.0
	for _, p := range r.Pipelines {
		least = min(least, p.Attainment)
	}
	return least
}

// Utilisation is the share of time with a batch on it, on average over the
// devices of the hardware; 0 where there is none.
func (r Result) Utilisation(hardware string) float64 {
	sum, n := 0.0, 0
	for _, d := range r.Devices {
		if d.Hardware == hardware {
			sum, n = sum+d.Utilisation, n+1
		}
	}
	return sum / float64(max(1, n))
}
