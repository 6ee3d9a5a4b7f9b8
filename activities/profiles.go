package activities

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
)

// Profiles are the kept profiles of one machine.
type Profiles struct {
	Store     ProfileStore
	Machine   string // kind of machine; see Host
	EngineFor func(pipelines.Module) (executors.Engine, error)
}

// Load returns the points that a task asks for, as far as they are kept.
func (p Profiles) Load(t executors.MeasureTask) ([]pipelines.Point, error) {
	key, err := p.key(t)
	if err != nil {
		return nil, err
	}
	kept, err := p.Store.Load(key)
	return slices.DeleteFunc(kept, func(p pipelines.Point) bool { return !t.Own(p) }), err
}

// Save keeps points, beside those that are kept for other batch sizes.
func (p Profiles) Save(t executors.MeasureTask, points []pipelines.Point) error {
	key, err := p.key(t)
	if err != nil {
		return err
	}
	kept, err := p.Store.Load(key)
	if err != nil {
		return err
	}
	return p.Store.Save(key, merge(kept, points))
}

// key names the profile: it goes stale when model, engine, machine, what is fed
// to the module or the way of measuring changes.
func (p Profiles) key(t executors.MeasureTask) (ProfileKey, error) {
	if t.Module.Name == "" {
		return ProfileKey{}, fmt.Errorf("activities: the pipeline has no such module; profile one that is declared")
	}
	engine, err := p.EngineFor(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	digest, err := content.Digest(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	return ProfileKey{
		Model: digest, Engine: engine.Name(), Version: engine.Version(),
		Hardware: t.Hardware, Machine: p.Machine, Feeds: t.Feeds, Rows: t.OutputRows, Cores: t.Cores, Queries: t.Module.Sized, Method: executors.MeasureMethod,
	}, nil
}
