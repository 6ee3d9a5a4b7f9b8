package executors

import (
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
)

// Task is everything that one executor needs to know. It travels as JSON.
type Task struct {
	Slot        placement.Slot
	Module      pipelines.Module
	Gateway     string             // address for Host.Dial, or several with commas between
	Concurrency int                // batches side by side; 0 means 1
	Outputs     []string           // see Model
	OutputRows  map[string]float64 // see Model
	Token       string             // for the gateway; empty on loopback

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

// demand says which outputs of a module the pipeline refers to, in order of
// first mention, and how many rows on average those need that feed a module
// with fan-out (the largest fanout where there are several).
func demand(p pipelines.Pipeline, module string) (outputs []string, rows map[string]float64) {
	add := func(r pipelines.Ref) {
		if r.Module == module && !slices.Contains(outputs, r.Port) {
			outputs = append(outputs, r.Port)
		}
	}
	for _, m := range p.Modules {
		for _, b := range m.Inputs {
			add(b.From)
			if b.From.Module == module && m.Scatter {
				if rows == nil {
					rows = make(map[string]float64)
				}
				rows[b.From.Port] = max(rows[b.From.Port], m.Fanout)
			}
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
		Token:       t.Token,
	}
	for i := range e.residents {
		h.MaxBatch = max(h.MaxBatch, e.residents[i].model.MaxBatch)
	}
	e.fillHello(h)
	return h
}
