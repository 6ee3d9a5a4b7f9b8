package shared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Names lists the policies that New builds.
func Names() []string { return []string{"adaptive", "clockwork", "deferred", "eager", "nexus"} }

// New builds the pool policy of that name, which may choose among variants
// (pipelines.DispatchVariants).
func New(name string, o Options) (dispatch.Policy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	policy, chosen, err := pipelines.SplitDispatch(name)
	if err != nil {
		return nil, err
	}
	switch policy {
	case "adaptive":
		return NewAdaptive(o), nil
	case "clockwork":
		return newClockwork(clockworkOptions{Options: o}), nil
	case "nexus":
		return newNexus(o), nil
	case "eager":
		return newDeferred(name, DeferredOptions{Options: o, Ready: AtOnce, Drop: dropRule(chosen[0])}), nil
	case "deferred":
		ready := FrontRun
		if chosen[0] == "beta-lambda" {
			ready = BetaLambda
		}
		return newDeferred(name, DeferredOptions{Options: o, Ready: ready, Drop: dropRule(chosen[1])}), nil
	}
	return nil, fmt.Errorf("there is no pool policy %q; choose one of %s", policy, strings.Join(Names(), ", "))
}

func dropRule(name string) DropRule {
	return DropRule(slices.Index([]string{"window", "early", "head"}, name))
}
