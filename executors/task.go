package executors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
)

// Task is everything that one executor needs. It travels as JSON.
type Task struct {
	Slot        placement.Slot
	Module      pipelines.Module
	Gateway     string             // address for Host.Dial, or several with commas between
	Concurrency int                // batches side by side; 0 means 1
	Outputs     []string           // see Model
	OutputRows  map[string]float64 // see Model

	// Residents are the modules of an executor that runs all of a cluster; Module is
	// empty then.
	Residents []Resident `json:",omitempty"`

	// Source is the pipeline without profiles, to find out what it sends to the
	// module, for warming up; see Feeds. It may be left out.
	Source pipelines.Pipeline

	resident string // Resident.Name, in what apart returns
}

// Resident is one of several modules of an executor; what it has stands for the task's.
type Resident struct {
	Name       string // placement.Resident
	Module     pipelines.Module
	Engine     string `json:",omitempty"`
	Batches    []int  `json:",omitempty"`
	Outputs    []string
	OutputRows map[string]float64
	Source     pipelines.Pipeline
}

// NewTask takes an executor's task out of a deployment. The slot must be one
// of the deployment's.
func NewTask(d placement.Deployment, slot placement.Slot, gateway string) Task {
	if d.Cluster != nil {
		return clusterTask(d, slot, gateway)
	}
	t := Task{Slot: slot, Gateway: gateway, Concurrency: 1}
	for _, m := range d.Pipeline.Modules {
		if m.Name == slot.Module {
			t.Module = m
		}
	}
	for _, m := range d.Plan.Modules {
		if m.Name == slot.Module && slot.Group >= 0 && slot.Group < len(m.Groups) {
			t.Concurrency = max(m.Groups[slot.Group].Concurrency, 1)
		}
	}
	t.Outputs, t.OutputRows = demand(d.Pipeline, slot.Module)
	t.Source = withoutProfiles(d.Pipeline)
	return t
}

func withoutProfiles(p pipelines.Pipeline) pipelines.Pipeline {
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		p.Modules[i].Profile = pipelines.Profile{}
	}
	return p
}

// demand reports which outputs of a module the pipeline refers to, in order of
// first mention, and how many rows on average those need that feed a module
// with fan-out (the largest fanout where there are several). A condition needs one in the share
// of requests in which it holds.
func demand(p pipelines.Pipeline, module string) (outputs []string, rows map[string]float64) {
	add := func(r pipelines.Ref) {
		if r.Module == module && !slices.Contains(outputs, r.Port) {
			outputs = append(outputs, r.Port)
		}
	}
	for _, m := range p.Modules {
		for _, r := range m.Reads() {
			add(r)
			if r.Module != module || !m.Scatter || m.IsConditional() && r != m.When {
				continue
			}
			mean := m.Fanout
			if m.Else {
				mean = 1 - mean
			}
			if rows == nil {
				rows = make(map[string]float64)
			}
			rows[r.Port] = max(rows[r.Port], mean)
		}
	}
	for _, o := range p.Outputs {
		add(o.From)
	}
	return outputs, rows
}

// batches are the sizes that the executor is to be ready for: the slot's, or
// those of the profile up to the slot's batch.
func (t Task) batches() []int {
	all := slices.Clone(t.Slot.Batches)
	if t.Slot.Batch > 0 {
		all = append(all, t.Slot.Batch)
	}
	if len(t.Slot.Batches) == 0 {
		for _, p := range t.Module.Profile.Points {
			if p.Hardware == t.Slot.Hardware && (t.Slot.Batch == 0 || p.Batch < t.Slot.Batch) {
				all = append(all, p.Batch)
			}
		}
	}
	if t.Module.Sized && len(t.Module.Profile.Points) == 0 { // a pool of which nothing is known yet
		all = append(all, t.Module.Batches...)
	}
	if len(all) == 0 {
		all = []int{1}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// turns names the device whose turns the executor waits for: one that rides waits
// for none, and has a name of its own there.
func (t Task) turns() string {
	if t.Slot.Rides {
		return t.Slot.Device + "+" + t.Slot.Module
	}
	return t.Slot.Device
}

func (t Task) concurrency() int { return max(t.Concurrency, 1) }

func (t Task) model() Model {
	batches := t.batches()
	return Model{
		Module:      t.Module,
		Hardware:    t.Slot.Hardware,
		Device:      t.Slot.Device,
		Batches:     batches,
		MaxBatch:    batches[len(batches)-1],
		Concurrency: t.concurrency(),
		Outputs:     t.Outputs,
		OutputRows:  t.OutputRows,
	}
}

func (e *executor) hello() *attach.Hello {
	t := e.task
	h := &attach.Hello{
		Executor:    t.Slot.Executor,
		Pipeline:    t.Slot.Pipeline,
		Module:      t.Slot.Module,
		Host:        e.host.Name,
		Device:      t.turns(),
		Hardware:    t.Slot.Hardware,
		Engine:      e.residents[0].engine.Name(),
		Concurrency: e.residents[0].model.Concurrency,
	}
	for i := range e.residents {
		h.MaxBatch = max(h.MaxBatch, e.residents[i].model.MaxBatch)
	}
	e.fillHello(h)
	return h
}

// resident is a module that an executor has loaded: its one, or one of those of a
// cluster, of which a batch names the one that computes it.
type resident struct {
	name      string // placement.Resident; empty for the one of a module's executor
	module    string // without the pipeline, as errors name it
	engine    Engine
	model     Model
	signature pipelines.Signature
	slowest   pipelines.SlowestRuns
}

// Together is an Engine that can have several models in one process, so that what the
// process itself takes of a device's memory is taken once.
type Together interface {
	// LoadTogether is Load of each; an instance that is gone takes the others with it,
	// and all are closed by themselves. The error is a *TogetherError.
	LoadTogether(ctx context.Context, all []Model) ([]Instance, error)
}

// TogetherError is why models could not be loaded together.
type TogetherError struct {
	At  int // the place of the model that could not
	Err error
}

func (e *TogetherError) Error() string { return e.Err.Error() }
func (e *TogetherError) Unwrap() error { return e.Err }

// LoadTogether is that of an engine that is Together, and Load of each by any other. The
// error is a *TogetherError.
func LoadTogether(ctx context.Context, e Engine, models []Model) ([]Instance, error) {
	if t, ok := e.(Together); ok {
		return t.LoadTogether(ctx, models)
	}
	var all []Instance
	for i, m := range models {
		one, err := e.Load(ctx, m)
		if err != nil {
			for _, loaded := range all {
				_ = loaded.Close()
			}
			return nil, &TogetherError{At: i, Err: err}
		}
		all = append(all, one)
	}
	return all, nil
}

// apart are the tasks of the residents: of a module's executor the task itself.
func (t Task) apart() []Task {
	if len(t.Residents) == 0 {
		return []Task{t}
	}
	all := make([]Task, len(t.Residents))
	for i, r := range t.Residents {
		all[i] = Task{Slot: t.Slot, Module: r.Module, Outputs: r.Outputs, OutputRows: r.OutputRows, Source: r.Source, resident: r.Name}
		all[i].Slot.Engine, all[i].Slot.Batches, all[i].Slot.Batch = r.Engine, r.Batches, 0
	}
	return all
}

// clusterTask takes the task of an executor out of the deployment of a cluster.
func clusterTask(d placement.Deployment, slot placement.Slot, gateway string) Task {
	t := Task{Slot: slot, Gateway: gateway, Concurrency: 1}
	for _, part := range d.Cluster.Parts {
		if part.Name != slot.Pipeline {
			continue
		}
		for _, member := range part.Members {
			source := withoutProfiles(member.Pipeline)
			for _, m := range member.Pipeline.Modules {
				r := Resident{Name: placement.Resident(member.Pipeline.Name, m.Name), Module: m, Source: source}
				r.Outputs, r.OutputRows = demand(member.Pipeline, m.Name)
				t.Residents = append(t.Residents, r)
			}
		}
	}
	return t
}

// settle finds an engine for every resident.
func (h *Host) settle(t Task) ([]resident, error) {
	var all []resident
	for _, one := range t.apart() {
		engine, err := h.engineOf(one)
		if err != nil {
			return nil, err
		}
		r := resident{name: one.resident, module: one.Module.Name, engine: engine, model: one.model()}
		r.slowest = r.model.Module.Profile.SlowestRuns(t.Slot.Hardware, r.model.Concurrency)
		r.model.Cores = h.coresOf(t.Slot.Device)
		r.model.Feeds = feedsOf(one.Source, one.Module.Name, h.Signatures())
		all = append(all, r)
	}
	return all, nil
}

// placeAll makes the files of all modules of a task ready; see content.Cache.
func (h *Host) placeAll(ctx context.Context, t Task) (_ Task, release func(), err error) {
	var releases []func()
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	modules := []*pipelines.Module{&t.Module}
	if t.Residents != nil {
		modules = nil
		t.Residents = append([]Resident(nil), t.Residents...)
		for i := range t.Residents {
			modules = append(modules, &t.Residents[i].Module)
		}
	}
	for _, m := range modules {
		begin := time.Now()
		placed, done, err := h.place(ctx, *m)
		if err != nil {
			release()
			return t, nil, loadError(m.Name, begin, "%w", err)
		}
		releases = append(releases, done)
		*m = placed
	}
	return t, release, nil
}

// instances loads the residents, those of an engine that can in one process.
func (e *executor) instances(ctx context.Context) ([]Instance, error) {
	all := make([]Instance, len(e.residents))
	fail := func(at int, err error) ([]Instance, error) {
		for _, one := range all {
			if one != nil {
				_ = one.Close()
			}
		}
		return nil, &residentError{&e.residents[at], err}
	}
	for i := range e.residents {
		if all[i] != nil {
			continue
		}
		at := e.loadedTogether(i)
		models := make([]Model, len(at))
		for k, j := range at {
			models[k] = e.residents[j].model
		}
		loaded, err := LoadTogether(ctx, bare(e.residents[i].engine), models)
		if err != nil {
			var of *TogetherError
			if errors.As(err, &of) {
				return fail(at[of.At], of.Err)
			}
			return fail(i, err)
		}
		for k, j := range at {
			all[j] = loaded[k]
		}
		for _, j := range at {
			if _, fills := e.residents[j].engine.(withConstants); !fills {
				continue
			}
			if all[j], err = fixed(all[j], e.residents[j].model); err != nil {
				return fail(j, err)
			}
		}
		for _, j := range at {
			if err := keepsState(&e.residents[j].model.Module, all[j].Signature()); err != nil {
				return fail(j, err)
			}
		}
	}
	return all, nil
}

// bare is an engine without what fills constants for it.
func bare(e Engine) Engine {
	if w, ok := e.(withConstants); ok {
		return w.Engine
	}
	return e
}

// residentError is why a resident could not be loaded.
type residentError struct {
	*resident
	err error
}

func (e *residentError) Error() string { return e.err.Error() }
func (e *residentError) Unwrap() error { return e.err }

// cannotLoad names the module that the error is of, or the first; attempts are those to load it
// again.
func (e *executor) cannotLoad(err error, attempts int) error {
	of := &residentError{&e.residents[0], err}
	errors.As(err, &of)
	if attempts > 0 {
		return fmt.Errorf("executors: %s cannot load module %q again after %d attempts: %w", e.task.Slot.Executor, of.module, attempts, err)
	}
	return fmt.Errorf("executors: %s cannot load module %q with engine %q: %w", e.task.Slot.Executor, of.module, of.engine.Name(), err)
}

// loadedTogether are the residents that are loaded in one process with that at i, from it on.
func (e *executor) loadedTogether(i int) (at []int) {
	if _, ok := bare(e.residents[i].engine).(Together); !ok {
		return []int{i}
	}
	for k := i; k < len(e.residents); k++ {
		if e.residents[k].engine.Name() == e.residents[i].engine.Name() {
			at = append(at, k)
		}
	}
	return at
}

// of is the place of the resident that a batch is for; -1 where there is none.
func (e *executor) of(b *attach.Batch) int {
	for i := range e.residents {
		if e.residents[i].name == b.Module {
			return i
		}
	}
	return -1
}

// fillHello adds the executor's residents to its Hello.
func (e *executor) fillHello(h *attach.Hello) {
	if len(e.task.Residents) == 0 {
		h.Signature = e.residents[0].signature
		return
	}
	for i := range e.residents {
		h.Residents = append(h.Residents, attach.Resident{Name: e.residents[i].name, Signature: e.residents[i].signature})
	}
}
