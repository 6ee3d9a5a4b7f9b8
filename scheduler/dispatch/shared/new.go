package shared

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// PoolNames lists the policies that New builds.
func Names() []string { return []string{"adaptive", "clockwork", "deferred", "eager", "nexus"} }

// New builds the pool policy of that name.
func New(name string, o Options) (dispatch.Policy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	switch name {
	case "adaptive":
		return NewAdaptive(o), nil
	case "clockwork":
		return NewClockwork(ClockworkOptions{Options: o}), nil
	case "nexus":
		return NewNexus(o), nil
	case "eager":
		return NewEager(o), nil
	case "deferred":
		return NewDeferred(DeferredOptions{Options: o}), nil
	}
	return nil, fmt.Errorf("there is no pool policy %q; choose one of %s", name, strings.Join(Names(), ", "))
}
