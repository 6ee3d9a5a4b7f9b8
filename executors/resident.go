package executors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
)

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

// cannotLoad says so of the module that the error is of, or of the first; attempts are those
// to load it again.
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

// fillHello is what the executor says of its residents.
func (e *executor) fillHello(h *attach.Hello) {
	if len(e.task.Residents) == 0 {
		h.Signature = e.residents[0].signature
		return
	}
	for i := range e.residents {
		h.Residents = append(h.Residents, attach.Resident{Name: e.residents[i].name, Signature: e.residents[i].signature})
	}
}
