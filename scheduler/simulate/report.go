package simulate

// result sums up the run.
func (e *engine) result(confidence float64) Result {
	r := Result{Duration: e.end - e.begin, Sizes: e.sizes, Events: e.events, Misses: e.misses, Cut: e.giveUp > 0 && e.misses > e.giveUp}
	span := float64(max(1, e.end-e.begin))
	for i := range e.devices {
		d := &e.devices[i]
		r.Devices = append(r.Devices, DeviceResult{Device: d.name, Hardware: d.hardware, Utilisation: float64(d.busy) / span, Batches: d.batches})
	}
	for i := range e.loads {
		p := e.loads[i].result(span/1e9, confidence)
		users := e.users(&e.loads[i])
		for _, at := range users {
			p.Utilisation += r.Devices[at].Utilisation / float64(len(users))
		}
		p.Devices = len(users)
		r.Pipelines = append(r.Pipelines, p)
	}
	return r
}

// users are the devices that have a lane of one of the pipeline's stations.
func (e *engine) users(a *loadState) []int {
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

func (a *loadState) result(seconds, confidence float64) PipelineResult {
	t := &a.tally
	r := PipelineResult{
		Pipeline: a.name, SLO: a.slo,
		Counts:     Counts{Requests: t.requests, Completed: t.completed, Late: t.late, Dropped: t.dropped, Refused: t.refused},
		Attainment: 1, Interval: OverTime(t.good[:], t.total[:], confidence), Latency: t.latency.Percentiles(),
	}
	if t.requests > 0 {
		r.Attainment = float64(t.completed) / float64(t.requests)
	}
	if t.spent > 0 {
		r.Wasted = 1 - float64(t.useful)/float64(t.spent)
	}
	var batches, batched int64
	for i := range a.nodes {
		n := &a.nodes[i]
		m := &n.tally
		batches, batched = batches+m.batches, batched+m.batched
		r.Modules = append(r.Modules, ModuleResult{
			Module: n.Module, Items: m.items, Completed: m.completed, Late: m.late, Dropped: m.dropped, Refused: m.refused,
			Withdrawn: m.withdrawn, Rate: float64(m.items) / seconds, Latency: m.latency.Percentiles(),
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
