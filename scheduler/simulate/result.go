package simulate

import (
	"time"
)

// Result is what a simulation saw. Requests that came during a warm-up are not
// counted anywhere.
type Result struct {
	Pipelines []PipelineResult
	Devices   []DeviceResult
	Duration  time.Duration // in which requests came and were counted
	Events    int64         // that were played

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

// Latency of what was answered. P50 and P99 are off by at most 0.2 %; Max is
// exact.
type Latency struct {
	P50, P99, Max time.Duration
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
	Attainment  float64  // Completed over Requests; 1 without requests
	Interval    Interval // that holds the attainment of a run without end
	Latency     Latency
	MeanBatch   float64
	Devices     int      // that serve the pipeline
	Utilisation float64  // of these, on average: share of time with a batch on it
	Goodput     *Goodput // where it was asked for
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
	Withdrawn int64   // taken back while they waited: their request had failed elsewhere
	Rate      float64 // items per second
	Latency   Latency // from ready to computed
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

// result sums up the run.
func (e *engine) result(confidence float64) Result {
	r := Result{Duration: e.end - e.begin, Events: e.events, Misses: e.misses, Cut: e.giveUp > 0 && e.misses > e.giveUp}
	span := float64(max(1, e.end-e.begin))
	for i := range e.devices {
		d := &e.devices[i]
		r.Devices = append(r.Devices, DeviceResult{Device: d.name, Hardware: d.hardware, Utilisation: float64(d.busy) / span, Batches: d.batches})
	}
	for i := range e.apps {
		p := e.apps[i].result(span/1e9, confidence)
		users := e.users(&e.apps[i])
		for _, at := range users {
			p.Utilisation += r.Devices[at].Utilisation / float64(len(users))
		}
		p.Devices = len(users)
		r.Pipelines = append(r.Pipelines, p)
	}
	return r
}

// users are the devices that have a lane of one of the pipeline's stations.
func (e *engine) users(a *app) []int {
	var list []int
	for at := range e.devices {
		for _, p := range e.devices[at].lanes {
			uses := false
			for k := range a.nodes {
				uses = uses || a.nodes[k].station == p.station
			}
			if uses {
				list = append(list, at)
				break
			}
		}
	}
	return list
}

func (a *app) result(seconds, confidence float64) PipelineResult {
	t := &a.tally
	r := PipelineResult{
		Pipeline: a.name, SLO: a.slo,
		Counts:     Counts{Requests: t.requests, Completed: t.completed, Late: t.late, Dropped: t.dropped, Refused: t.refused},
		Attainment: 1, Interval: OverTime(t.good[:], t.total[:], confidence), Latency: t.latency.latency(),
	}
	if t.requests > 0 {
		r.Attainment = float64(t.completed) / float64(t.requests)
	}
	var batches, batched int64
	for i := range a.nodes {
		n := &a.nodes[i]
		m := &n.tally
		batches, batched = batches+m.batches, batched+m.batched
		r.Modules = append(r.Modules, ModuleResult{
			Module: n.Module, Items: m.items, Completed: m.completed, Late: m.late, Dropped: m.dropped, Refused: m.refused,
			Withdrawn: m.withdrawn, Rate: float64(m.items) / seconds, Latency: m.latency.latency(),
			MeanBatch: mean(m.batched, m.batches), Batches: m.batches, Budget: n.Budget, Behind: m.behind,
		})
	}
	r.MeanBatch = mean(batched, batches)
	return r
}

func mean(sum, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}
