package system

import (
	"context"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// serveFunctions applies the functions of the declaration and waits until they
// serve, together with what the state folder had before.
func (s *System) serveFunctions(ctx context.Context, commands *control.Control, o Options, doc pipelines.Document) error {
	generations := map[string]int{}
	names, err := commands.Functions(ctx)
	if err != nil {
		return err
	}
	for _, f := range doc.Functions {
		reply, err := commands.ApplyFunction(ctx, workflows.FunctionApply{Spec: FunctionSpec(f, doc)})
		if err != nil {
			return err
		}
		generations[f.Name] = reply.Generation
		names = append(names, f.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		status, err := commands.WaitFunction(ctx, name, generations[name], func(status control.FunctionStatus) {
			s.say("function %s: %s", status.Function, status.Phase)
		})
		if err != nil {
			return err
		}
		if err := s.installed(ctx, name); err != nil {
			return err
		}
		s.Functions = append(s.Functions, status)
	}
	return nil
}

// FunctionSpec is what a system asks of the function's workflow.
func FunctionSpec(f pipelines.Function, doc pipelines.Document) workflows.FunctionSpec {
	spec := workflows.FunctionSpec{Function: f}
	if p := doc.Provider(f.Provider); p != nil {
		spec.Provider = *p
	}
	spec.Options.Policy = f.Plan.Policy
	return spec
}
