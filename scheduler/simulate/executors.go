package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Executors are so many executors of one kind. Durations are by the size of a
// batch, less one: the requests in it, or where these have sizes
// (Load.Sizes), their sum.
type Executors struct {
	Hardware  string
	Count     int
	Durations []time.Duration // of a batch; on average, where Longest is given

	// Longest makes every batch take a random time around its duration, cut off
	// at the longest, which is its 99th percentile (Latency). Nil leaves
	// that to Options.Noise.
	Longest []time.Duration

	// Elastic brings up another executor whenever none idles, as a provider of
	// functions does; Count is 0 then.
	Elastic bool
}

// OnExecutors plays loads of one module each against executors of several
// kinds with one dispatcher, without a plan. Requests of load i are of class i;
// executors come up in the group that is their place in the list. These are the
// settings of Kairos, with queries of different sizes to a pool of instances
// that differ (policy matching), and of HarmonyBatch, with applications that
// share a model on functions (policy grouped).
func OnExecutors(loads []Load, kinds []Executors, policy dispatch.Policy, o Options) (Result, error) {
	e, o, err := newEngine(loads, o)
	if err != nil {
		return Result{}, err
	}
	p := made{Policy: policy}
	if o.Record != nil {
		p.recorder = o.Record("executors")
		p.recorder.Begin(policy, o.Spec, false)
	}
	s := e.newStation(p)
	var durations, longest [][]Time
	for _, k := range kinds {
		durations, longest = append(durations, k.Durations), append(longest, k.Longest)
		if k.Longest != nil && len(k.Longest) != len(k.Durations) {
			return Result{}, fmt.Errorf("simulate: %s has %d durations and %d longest ones; give one for each size of a batch", k.Hardware, len(k.Durations), len(k.Longest))
		}
		if k.Elastic && k.Count != 0 {
			return Result{}, fmt.Errorf("simulate: %s comes up as it is called; leave its count of %d out", k.Hardware, k.Count)
		}
		s.elastic = append(s.elastic, elastic{allowed: k.Elastic, hardware: k.Hardware})
	}
	if !slices.ContainsFunc(kinds, func(k Executors) bool { return k.Elastic }) {
		s.elastic = nil
	}
	for i := range loads {
		a := &e.loads[i]
		if !a.graph.Single() {
			return Result{}, fmt.Errorf("simulate: %q has several modules; executors without a plan serve one", a.name)
		}
		a.nodes[0].class = int32(i)
		s.tables, s.longest = append(s.tables, durations), append(s.longest, longest)
	}
	for group, k := range kinds {
		for range k.Count {
			if err := e.addAlone(0, int32(group), k.Hardware, 1); err != nil {
				return Result{}, err
			}
		}
	}
	return e.play(loads, o)
}

// elastic is a station's state of a group that may grow; the list is nil where none may.
type elastic struct {
	allowed  bool
	hardware string
	idle     int32 // executors that run nothing
}

// addAlone gives a station an executor with a device of its own.
func (e *engine) addAlone(station, group int32, hardware string, concurrency int) error {
	at, err := e.addDevice(hardware)
	if err == nil {
		e.addExecutor(station, at, group, concurrency)
	}
	return err
}

// countIdle counts executors of a group that idle from now on, or no longer.
func (e *engine) countIdle(station, group, n int32) {
	if all := e.stations[station].elastic; all != nil {
		all[group].idle += n
	}
}

// addWhereNoneIdles brings up executors of the groups that have none idle and may have more.
func (e *engine) addWhereNoneIdles(station int32) {
	s := &e.stations[station]
	for g := range s.elastic {
		if !s.elastic[g].allowed || s.elastic[g].idle > 0 || e.fault != nil {
			continue
		}
		if err := e.addAlone(station, int32(g), s.elastic[g].hardware, 1); err != nil {
			e.fault = err
			return
		}
		if 2*e.lanes > e.keys.change {
			e.reserve(2 * e.lanes)
		}
		e.executorUp(laneRef{station, int32(len(s.lanes)) - 1})
	}
}

// offer lets executors that were refused a shared device ask again after a batch has left
// it.
func (e *engine) offer(at int32) {
	for user := e.devices[at].arbiter.Next(); user >= 0; user = e.devices[at].arbiter.Next() {
		p := e.devices[at].lanes[user]
		e.step(p.station, &dispatch.Event{Kind: dispatch.DeviceIdle, Executor: dispatch.ExecutorID(p.lane)})
	}
}
