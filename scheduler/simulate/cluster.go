package simulate

import (
	"cmp"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/cluster/division"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// Devices is so many devices of one hardware in a cluster.
type Devices struct {
	Hardware string
	Count    int
}

// OnCluster plays all loads against one cluster of devices, without plans: every
// device runs any module of any pipeline, one batch at a time, and one
// dispatcher serves all of them. This is the setting of Symphony.
//
// A pipeline of several modules divides its SLO so that the devices have least work
// (package cluster/division; by the first kind, where there are several); a request
// is due at a module when the budgets up to there have passed, and what a module leaves of
// its budget is the next one's.
func OnCluster(loads []Load, devices []Devices, o Options) (Result, error) {
	e, o, err := newEngine(loads, o)
	if err != nil {
		return Result{}, err
	}
	b := clusterSetup{engine: e, options: o, kinds: devices}
	if err := b.build(loads); err != nil {
		return Result{}, err
	}
	return e.play(loads, o)
}

// clusterSetup gives a cluster its one station.
type clusterSetup struct {
	*engine
	options Options
	kinds   []Devices
	models  []shared.Model
	tables  [][][]Time

	blocking time.Duration // of devices; see package division
}

func (b *clusterSetup) build(loads []Load) error {
	if len(b.kinds) == 0 {
		return fmt.Errorf("simulate: the cluster has no devices; name the hardware and how many there are of it")
	}
	for i := range loads {
		b.blocking = max(b.blocking, division.Blocking(b.kinds[0].Hardware, loads[i].Pipeline))
	}
	for i := range loads {
		if err := b.addModels(&loads[i], &b.loads[i]); err != nil {
			return err
		}
	}
	name := cmp.Or(b.options.Dispatch, pipelines.Dispatches(pipelines.KindCluster)[0])
	if err := factory.Suits(pipelines.KindCluster, name); err != nil && b.options.Policy == nil {
		return fmt.Errorf("simulate: %w", err)
	}
	options := shared.Options{Models: b.models, MaxQueue: b.options.MaxQueue, Delay: b.planned}
	policy, err := b.options.newPolicy("cluster", factory.Spec{Shared: &factory.Shared{Name: name, Options: options}})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	b.newStation(policy).tables = b.tables
	seen := map[string]bool{}
	for g, k := range b.kinds {
		if k.Count < 1 || seen[k.Hardware] {
			return fmt.Errorf("simulate: the cluster has %d devices %q; give each hardware once, with at least one device", k.Count, k.Hardware)
		}
		seen[k.Hardware] = true
		for range k.Count {
			if err := b.addAlone(0, int32(g), k.Hardware, 1); err != nil {
				return err
			}
		}
	}
	if s := b.options.Scaling; s != nil {
		if len(b.kinds) > 1 {
			return fmt.Errorf("simulate: a cluster of %d kinds of devices is not scaled; name one", len(b.kinds))
		}
		b.scale(*s, b.kinds[0].Hardware)
	}
	return nil
}

// addModels makes a model of every module of a pipeline.
func (b *clusterSetup) addModels(l *Load, a *loadState) error {
	budget, err := b.split(l)
	if err != nil {
		return err
	}
	scaled := l.Pipeline
	scaled.Rate = l.offered()
	hardware := make([]string, len(b.kinds))
	for i, k := range b.kinds {
		hardware[i] = k.Hardware
	}
	models, err := factory.SharedModels(&scaled, a.graph, budget, hardware...)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	for i, model := range models {
		a.nodes[i].class = int32(len(b.models))
		b.models = append(b.models, model)
		b.tables = append(b.tables, model.Groups)
	}
	return nil
}

// split divides the SLO among the modules.
func (b *clusterSetup) split(l *Load) (map[string]time.Duration, error) {
	p := l.Pipeline
	switch {
	case l.Budgets != nil:
		return l.Budgets, nil
	case len(p.Modules) == 1:
		return map[string]time.Duration{p.Modules[0].Name: p.SLO}, nil
	}
	if p.Rate == 0 {
		p.Rate = l.offered()
	}
	d, err := division.Of(p, b.kinds[0].Hardware, b.blocking)
	if err != nil {
		return nil, fmt.Errorf("simulate: the SLO of pipeline %q cannot be divided among its modules: %w", p.Name, err)
	}
	return d.Budgets, nil
}

// Scaling lets the number of a cluster's devices follow what is measured, by the same
// size.Cluster as the workflow of a cluster that serves.
type Scaling struct {
	Options size.Options
	Every   time.Duration // length of what is measured, one after the other; 0 means DefaultEvery
	Start   time.Duration // from the advice until another device serves; it is paid for meanwhile

	// Advise, where given, advises in place of size.Cluster: another rule to compare it with.
	Advise func(size.Measures) size.Advice
}

// DefaultEvery is the default interval of measures, that at which gateways send them.
const DefaultEvery = 5 * time.Second

// Size is how a cluster was at the end of a span of measures.
type Size struct {
	At       time.Duration
	Devices  int     // that serve
	Paid     int     // these and those that start
	Requests int64   // that came since the last
	Missed   int64   // requests that were ended since then and not in time
	Bad      float64 // share of the pipeline with most; 0 where too few requests ended
	Idle     float64 // share of the devices' time
	Advice   int     // devices more, or fewer, since the last
}

// scaled is a cluster whose size changes while it is played.
type scaled struct {
	Scaling
	devices int        // that serve or start
	coming  []Time     // when those that start serve, in order of time
	spares  []int32    // devices that were given back
	last    []outcomes // of each load
	busy    Time       // of all devices at the last measures
	changed Time       // when the size last did
	kind    string

	cluster size.Cluster // where it advises
	reports size.Reports
	asked   int // devices more, since the last measures
}

// outcomes are requests of a load so far.
type outcomes struct{ came, good, bad int64 }

func (t *tally) outcomes() outcomes {
	return outcomes{t.requests, t.completed, t.late + t.dropped + t.refused}
}

// scale begins to measure.
func (e *engine) scale(s Scaling, kind string) {
	if s.Every == 0 {
		s.Every = DefaultEvery
	}
	all := &scaled{Scaling: s, devices: len(e.devices), last: make([]outcomes, len(e.loads)), kind: kind}
	if s.Advise == nil {
		all.cluster.Options, all.reports.Every = s.Options, s.Every
		all.Advise = all.cluster.Observe
	}
	e.scaled = all
}

// rise requests more devices at once where requests are lost.
func (e *engine) rise() {
	s := e.scaled
	if s.reports.Every == 0 {
		return
	}
	var so size.Counts
	for i := range e.loads {
		o := e.loads[i].tally.outcomes()
		so = so.Add(size.Counts{Arrived: o.came, Ended: o.good + o.bad, Lost: o.bad})
	}
	latest, due := s.reports.Look(time.Unix(0, 0).Add(e.now), so)
	if !due || len(s.coming) > 0 || latest.From.Before(time.Unix(0, 0).Add(s.changed)) {
		return
	}
	if a := s.cluster.Within(s.cluster.Rise(&latest, s.devices), s.devices); a.Change > 0 {
		s.cluster.Grew(latest.To)
		s.asked += a.Change
		e.ask(a.Change)
	}
}

// ask requests more devices.
func (e *engine) ask(more int) {
	s := e.scaled
	for range more {
		s.devices++
		s.coming = append(s.coming, e.now+s.Start)
	}
}

// nextMeasure is when the size of the cluster is looked at after now; never where it is
// fixed.
func (e *engine) nextMeasure() Time {
	s := e.scaled
	if s == nil || e.now >= e.end {
		return never
	}
	at := e.now - e.now%size.LookEvery + size.LookEvery
	if len(s.coming) > 0 {
		at = min(at, s.coming[0])
	}
	return at
}

// measure lets requested devices serve, and at the end of a span requests more or returns
// some.
func (e *engine) measure() {
	s := e.scaled
	for len(s.coming) > 0 && s.coming[0] <= e.now {
		s.coming, s.changed = s.coming[1:], e.now
		e.grow()
	}
	if e.now%size.LookEvery == 0 {
		e.rise()
	}
	if e.now%s.Every != 0 {
		return
	}
	serving := s.devices - len(s.coming)
	m := size.Measures{End: time.Unix(0, 0).Add(e.now), Span: s.Every, Devices: serving}
	at := Size{At: e.now, Devices: serving, Paid: s.devices}
	for i := range e.loads {
		now, was := e.loads[i].tally.outcomes(), s.last[i]
		s.last[i] = now
		good, bad := now.good-was.good, now.bad-was.bad
		at.Requests, at.Missed = at.Requests+now.came-was.came, at.Missed+bad
		m.Bad = max(m.Bad, size.BadRate(good+bad, bad))
	}
	m.Rate = float64(at.Requests) / s.Every.Seconds()
	busy := e.busySoFar()
	m.Idle = max(0, 1-(busy-s.busy).Seconds()/(float64(max(1, serving))*s.Every.Seconds()))
	s.busy = busy
	if len(s.coming) == 0 && s.changed <= e.now-s.Every { // of nothing but what serves now
		at.Advice = s.Advise(m).Change
	}
	e.ask(at.Advice)
	at.Bad, at.Idle = m.Bad, m.Idle
	at.Advice, s.asked = at.Advice+s.asked, 0
	e.sizes = append(e.sizes, at)
	if at.Advice < 0 {
		s.devices, s.changed = s.devices+at.Advice, e.now
		e.giveBack(-at.Advice)
	}
}

// busySoFar is the time that batches have taken of all devices until now.
func (e *engine) busySoFar() (all Time) {
	for i := range e.devices {
		all += e.devices[i].busy
	}
	for k := range e.flights {
		if f := &e.flights[k]; f.state == running {
			all += e.now - f.begun
		}
	}
	return all
}

// grow lets a device serve: one that was given back, or another.
func (e *engine) grow() {
	s := e.scaled
	if k := len(s.spares) - 1; k >= 0 {
		at := s.spares[k]
		s.spares, e.devices[at].leaving = s.spares[:k], false
		e.returnDevice(at)
		return
	}
	if e.fault = e.addAlone(0, 0, s.kind, 1); e.fault != nil {
		return
	}
	if 2*e.lanes > e.keys.change {
		e.reserve(2 * e.lanes)
	}
	e.executorUp(laneRef{0, int32(len(e.stations[0].lanes)) - 1})
}

// giveBack lets devices go after the batches that they run, those that idle first.
func (e *engine) giveBack(n int) {
	for _, idle := range []bool{true, false} {
		for i := len(e.devices) - 1; i >= 0 && n > 0; i-- {
			if d := &e.devices[i]; !d.lost && !d.leaving && e.idles(d) == idle {
				d.leaving = true
				n--
				if idle {
					e.leaveNow(int32(i))
				}
			}
		}
	}
}

// idles reports that nothing runs on a device or is on its way there.
func (e *engine) idles(d *device) bool {
	first := 2 * e.stations[0].lanes[d.lanes[0].lane].index
	return e.flights[first].state == idle && e.flights[first+1].state == idle
}

// leaveNow ends a device that idles.
func (e *engine) leaveNow(at int32) {
	d := &e.devices[at]
	d.lost = true
	e.scaled.spares = append(e.scaled.spares, at)
	e.step(d.lanes[0].station, &dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(d.lanes[0].lane)})
}
