package scheduler

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Policies are those that a program brings beside the ones of this project, under names with a
// slash (pipelines.Qualified). Declarations may name them; whether the program has them is
// checked where they are used: in planning, and in dispatch.
type Policies struct {
	Plan     map[string]plan.Policy // of pipelines, by name
	Dispatch factory.Policies
}

// Check reports what is wrong with them.
func (p Policies) Check() error {
	for name, by := range p.Plan {
		if !pipelines.Qualified(name) || by == nil {
			return fmt.Errorf("planner policy %q: give it a name with a slash, such as \"acme/%s\", and a value", name, name)
		}
	}
	return p.Dispatch.Check()
}

// Missing reports which policy the services name that the program does not bring; nil for none.
func (p Policies) Missing(doc *pipelines.Document) error {
	for _, one := range doc.Pipelines {
		if name := one.Plan.Policy; pipelines.Qualified(name) && p.Plan[name] == nil {
			return fmt.Errorf("pipeline %q: this program has no planner policy %q; start the one that brings it, or choose one of %s", one.Name, name, pipelines.Quoted(pipelines.Policies(KindPipeline)))
		}
		if err := p.Dispatch.Has(one.Dispatch); err != nil {
			return fmt.Errorf("pipeline %q: %w", one.Name, err)
		}
	}
	for _, one := range doc.Clusters {
		if err := p.Dispatch.Has(one.Dispatch); err != nil {
			return fmt.Errorf("cluster %q: %w", one.Name, err)
		}
	}
	return nil
}
