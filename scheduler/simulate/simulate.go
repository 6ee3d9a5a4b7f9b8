package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Load is a pipeline and how its requests come.
type Load struct {
	Pipeline pipelines.Pipeline
	Arrivals arrivals.Process

	// Rate is the mean number of requests per second. Recorded arrivals are
	// scaled to it; 0 leaves them as they were recorded. Of other kinds, 0
	// means that no request comes.
	Rate float64

	// Budgets divide the SLO among the modules, for OnCluster; nil divides it as the
	// plan of a cluster does (package scheduler/cluster/division).
	Budgets plan.Budgets

	// Sizes are those of queries, of which each is a batch of its own: the
	// request that comes i-th has Sizes[i], and they repeat. Nil where requests
	// have no sizes. For OnExecutors.
	Sizes []int32
}

// Options of a simulation. The zero value simulates a minute.
type Options struct {
	// Dispatch is the policy. For plans: "tc" (when empty) or a policy of clusters,
	// which then batches for each module by itself; for clusters one of theirs, their
	// default when empty.
	Dispatch string

	Duration time.Duration // in which requests come and are counted; a minute when 0
	Warmup   time.Duration // before that, in which they come and are not counted
	Seed     uint64        // the same seed draws the same requests

	Delay   DrawnDelay // of the network, from dispatcher to device
	Noise   float64    // coefficient of variation of the time of a batch around its profile
	Spread  Spread     // of fan-out; SpreadPoisson when empty
	Outages []Outage
	Scaling *Scaling // of a cluster of one kind of device; nil where their number is fixed

	// Eager lets idle executors of policy tc start early where that breaks no
	// promise, as in tc.Options and as gateways do. It shortens latencies
	// where devices have time to spare.
	Eager bool

	// Admission refuses requests that could not be answered in time when they
	// come, as gateways do (package scheduler/dispatch/admission). For plans.
	Admission bool

	// Dropping is the rule by which items are given up; empty for the one that serves.
	Dropping Dropping

	// MaxQueue is as in tc.Options and shared.Options.
	MaxQueue int

	Confidence float64 // of the intervals; DefaultConfidence when 0
	GiveUp     int64   // ends the run after more misses than this; 0 never does
	Test       *Test   // ends the run when it is certain what each pipeline attains; nil never does
	Observer   Observer

	// Record, where given, makes what keeps the steps of a station's policy: those of the
	// module "pipeline/module", of a cluster, "cluster", or, on executors, "executors".
	Record func(station string) *recording.Recorder

	// Spec is what the policy of OnExecutors was made from, without which it cannot be
	// recorded.
	Spec factory.Spec

	// Stop is polled; true ends the run with ErrStopped. Nil is never.
	Stop func() bool

	// Policies are dispatch policies that a program brings beside those of this project.
	Policies factory.Policies

	// Policy makes the policy of a cluster in place of the one named.
	Policy func(shared.Options) (dispatch.Policy, error)
}

// Bounds of what can be simulated.
const (
	MaxDevices  = 1 << 18
	maxRequests = 1e11
	maxDuration = 100 * 365 * 24 * time.Hour
)

func (o Options) withDefaults() Options {
	if o.Duration == 0 {
		o.Duration = time.Minute
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	if o.Spread == "" {
		o.Spread = SpreadPoisson
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Duration < 0 || o.Duration > maxDuration:
		return fmt.Errorf("simulate: a duration of %v cannot be simulated; take one above zero and up to a hundred years", o.Duration)
	case o.Warmup < 0 || o.Warmup > maxDuration:
		return fmt.Errorf("simulate: a warm-up of %v cannot be simulated", o.Warmup)
	case o.Delay.Check() != nil:
		return fmt.Errorf("simulate: delay of the network: %w", o.Delay.Check())
	case o.Scaling != nil && (o.Scaling.Every < 0 || o.Scaling.Start < 0):
		return fmt.Errorf("simulate: a cluster cannot be measured every %v and grow after %v", o.Scaling.Every, o.Scaling.Start)
	case !(o.Noise >= 0 && o.Noise <= 10):
		return fmt.Errorf("simulate: noise is the coefficient of variation of durations, from 0 to 10, not %v", o.Noise)
	case !(o.Confidence > 0 && o.Confidence < 1):
		return fmt.Errorf("simulate: a confidence is between 0 and 1, such as 0.95, not %v", o.Confidence)
	case o.Test != nil && !(o.Test.Confidence > 0.5 && o.Test.Confidence < 1 && o.Test.First > 0 && o.Test.Refuted >= 0 && o.Test.Refuted < 1):
		return fmt.Errorf("simulate: a test has a confidence from 0.5 to 1, such as 0.99, and a first look above zero, not %v after %v", o.Test.Confidence, o.Test.First)
	case o.Spread != SpreadPoisson && o.Spread != SpreadNear:
		return fmt.Errorf("simulate: fan-out is spread as %s or %s, not %q", SpreadPoisson, SpreadNear, o.Spread)
	}
	return nil
}

func checkLoads(loads []Load, o Options) error {
	if len(loads) == 0 {
		return fmt.Errorf("simulate: there is no pipeline to simulate")
	}
	seen := map[string]bool{}
	for _, l := range loads {
		name := l.Pipeline.Name
		if seen[name] {
			return fmt.Errorf("simulate: there are two pipelines %q", name)
		}
		seen[name] = true
		if err := l.Arrivals.Check(); err != nil {
			return err
		}
		if l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0) {
			return fmt.Errorf("simulate: pipeline %q cannot be offered %v requests per second", name, l.Rate)
		}
		if n := l.Rate * (o.Duration + o.Warmup).Seconds(); n > maxRequests {
			return fmt.Errorf("simulate: %.2g requests to pipeline %q would take more than a day to play; lower the rate or the duration", n, name)
		}
		if l.Pipeline.SLO <= 0 {
			return fmt.Errorf("simulate: pipeline %q has an SLO of %v; it must be above zero", name, l.Pipeline.SLO)
		}
	}
	return nil
}

// offered is the mean rate at which requests come.
func (l Load) offered() float64 {
	if was, _ := l.Arrivals.Recorded(); was > 0 && l.Rate == 0 {
		return was
	}
	return l.Rate
}

// newEngine checks and completes the options, and prepares everything but
// stations and devices.
func newEngine(loads []Load, o Options) (*engine, Options, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, o, err
	}
	if err := checkLoads(loads, o); err != nil {
		return nil, o, err
	}
	e := &engine{
		delay: o.Delay, planned: o.Delay.Planned(), noise: o.Noise, spread: o.Spread, dropping: o.Dropping, random: RandomSource(o.Seed, ForNoise, 0),
		begin: o.Warmup, end: o.Warmup + o.Duration, giveUp: o.GiveUp, observer: o.Observer, stop: o.Stop, test: test{at: never},
	}
	if o.Delay.Random() {
		e.delays = RandomSource(o.Seed, ForDelay, 0)
	}
	for i := range loads {
		l := &loads[i]
		g, nodes, err := compile(&l.Pipeline)
		if err != nil {
			return nil, o, err
		}
		a := loadState{graph: g, nodes: nodes, name: l.Pipeline.Name, slo: l.Pipeline.SLO, sizes: l.Sizes, fan: RandomSource(o.Seed, ForFanout, i), tally: newTally(e.begin, e.end)}
		a.next = never
		if l.offered() > 0 {
			a.arrivals = l.Arrivals.Stream(l.Rate, e.end, RandomSource(o.Seed, ForArrivals, i))
			a.tally.streams = make([]streamTally, a.arrivals.Streams())
			if kinds := a.arrivals.Kinds(); len(kinds) > 1 {
				a.tally.kinds = kinds
			}
		}
		for k := range a.nodes {
			if a.nodes[k].tally.behind = -never; a.nodes[k].of.State && len(a.tally.streams) > 0 {
				a.turns = &frameTurns{of: make(map[int32]*admission.Turns[struct{}]), under: make(map[int64]*admission.Turn[struct{}])}
			}
		}
		e.loads = append(e.loads, a)
	}
	if o.Test != nil {
		e.beginTest(*o.Test)
	}
	return e, o, nil
}

// addDevice makes a device.
func (e *engine) addDevice(hardware string) (int32, error) {
	if len(e.devices) == MaxDevices {
		return 0, fmt.Errorf("simulate: more than %d devices are more than memory is kept for; simulate a part of them at a part of the rate", MaxDevices)
	}
	n := 0
	for i := len(e.devices) - 1; i >= 0; i-- {
		if e.devices[i].hardware == hardware {
			n = e.devices[i].number + 1
			break
		}
	}
	e.devices = append(e.devices, device{name: fmt.Sprintf("%s/%d", hardware, n), number: n, hardware: hardware})
	return int32(len(e.devices) - 1), nil
}

// addExecutor gives a station an executor on a device.
func (e *engine) addExecutor(station, device, group int32, concurrency int) {
	executor := e.executors
	e.executors++
	s := &e.stations[station]
	for range max(1, concurrency) {
		e.devices[device].arbiter.Add()
		e.devices[device].lanes = append(e.devices[device].lanes, laneRef{station, int32(len(s.lanes))})
		s.lanes = append(s.lanes, lane{index: e.lanes, device: device, user: len(e.devices[device].lanes) - 1, executor: executor, group: group, concurrency: int32(max(1, concurrency))})
		e.lanes++
	}
}

// reserve makes room in the event queue for that many flights. What is in
// it keeps its order.
func (e *engine) reserve(flights int32) {
	was, queued := e.keys, e.queue.Entries()
	e.keys.change = flights
	e.keys.load = e.keys.change + 1
	e.keys.timer = e.keys.load + int32(len(e.loads))
	e.queue = dispatch.NewAgenda(int(e.keys.timer) + len(e.stations))
	for _, at := range queued {
		if at.Key >= was.change {
			at.Key += e.keys.change - was.change
		}
		e.queue.Set(at.Key, at.At)
	}
	e.flights = append(e.flights, make([]flight, int(flights)-len(e.flights))...)
}

// play runs the engine to the end of all requests.
func (e *engine) play(loads []Load, o Options) (Result, error) {
	changes, err := deviceChanges(o.Outages, len(e.devices))
	if err != nil {
		return Result{}, err
	}
	e.changes = changes
	e.reserve(2 * e.lanes)
	for i := range e.devices {
		for _, p := range e.devices[i].lanes {
			e.executorUp(p)
		}
	}
	for i := range e.stations {
		e.addWhereNoneIdles(int32(i))
	}
	e.awaitChange()
	for i := range e.loads {
		a := &e.loads[i]
		for k := range a.nodes {
			a.nodes[k].kept = e.dropping.kept(a.nodes[k].Node, a.slo)
		}
		if loads[i].offered() > 0 {
			e.schedule(int32(i))
		}
	}
	e.run()
	if e.fault != nil {
		return Result{}, e.fault
	}
	r := e.result(o.Confidence)
	for i := range r.Pipelines {
		p := &r.Pipelines[i]
		p.Arrivals, p.Seed, p.Rate = loads[i].Arrivals.String(), o.Seed, loads[i].offered()
		p.Dispatch = e.stations[e.loads[i].nodes[0].station].Policy.Name()
		if o.Test != nil {
			p.Interval = e.loads[i].verdict
		}
		if lost := p.Requests - p.Completed - p.Late - p.Dropped - p.Refused; lost != 0 && !r.Cut {
			return r, fmt.Errorf("simulate: policy %s has left %d requests of pipeline %q without an outcome", p.Dispatch, lost, p.Pipeline)
		}
	}
	return r, nil
}

// Time is an instant of the virtual clock: the duration since its start.
type Time = time.Duration

// never is the instant that does not come.
const never = dispatch.Never

// ErrStopped ends a run that Options.Stop has ended.
const ErrStopped = stopped("simulate: stopped before the end")

type stopped string

func (s stopped) Error() string { return string(s) }

// Dropping is a rule for the time by which an item must leave its module; one that cannot
// is dropped there.
type Dropping string

// The rules besides the default, which gateways follow, too: the least that the modules
// below need is kept for them, and at the first module, where nothing is lost yet by giving
// a request up, their budgets, as long as a queue stands there and others take its place
// (tc.Options.Below).
const (
	// DropHopeless keeps the least that the modules below need everywhere: the durations of
	// batches of one.
	DropHopeless Dropping = "hopeless"

	// DropReactive keeps nothing for the modules below: an item is given up when its own
	// module cannot do it by the deadline of its request. As the PARD paper (arXiv
	// 2602.08747) describes Nexus.
	DropReactive Dropping = "reactive"

	// DropBySplit gives up an item that cannot leave within the budgets of its module and
	// those above. As the PARD paper describes Clipper++.
	DropBySplit Dropping = "split"
)

// kept is what is kept of the objective at a node for the modules below.
func (d Dropping) kept(n *flow.Node, slo Time) Time {
	switch d {
	case DropReactive:
		return 0
	case DropBySplit:
		return bySplit(n, slo)
	}
	return n.Keep.Least
}

// below is what the plan gives the modules below a first one, as far as the rule goes by it.
func (d Dropping) below(n *flow.Node) Time {
	if d != "" {
		return 0
	}
	return n.Below()
}

// bySplit keeps whatever of the objective is not of the budgets down to the node.
func bySplit(n *flow.Node, slo Time) Time {
	if n.Budget <= 0 {
		return 0
	}
	return max(0, slo-n.Offset-n.Budget)
}

// Observer is called with what happens. Functions that are nil are not called.
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
	Group    int           // of the executor, in its policy
	Requests []Request     // what it held; valid until the call returns
}

// Request is the part of a request that a batch held.
type Request struct {
	Load  int           // whose it is, from 0
	Ready time.Duration // when it became ready for the module
}
