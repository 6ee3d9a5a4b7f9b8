package planning

import (
	"slices"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// policiesOf are the policies of a kind of service, of those asked for.
func (f *compareFlags) policiesOf(k scheduler.Kind) []string {
	return slices.DeleteFunc(pipelines.Policies(k), func(name string) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, name)
	})
}

// others compares the policies on every function and pool of the document.
func (f *compareFlags) others(d *command.Deps, doc *pipelines.Document, to *comparisons) error {
	for _, s := range scheduler.Specs(doc) {
		names := f.policiesOf(s.Kind())
		if len(names) == 0 {
			continue
		}
		switch s.Kind() {
		case scheduler.KindFunction:
			one, err := functions.Compare(s.FunctionProblem(), functions.Options{Clock: d.Clock}, names...)
			if err != nil {
				return err
			}
			to.Functions = append(to.Functions, one)
		case scheduler.KindPool:
			to.Pools = append(to.Pools, pool.Compare(pool.Problem{Pool: *s.Pool, Hardware: s.Hardware}, pool.Options{}, names...))
		}
	}
	return nil
}
