package devices

import (
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Measuring are those of a machine's devices, a core first and then kinds of instances, to
// measure a module on: a core, or every kind of instance for a pool.
func Measuring(m pipelines.Module, found []placement.Device) []placement.Device {
	instances := slices.DeleteFunc(slices.Clone(found[1:]), func(d placement.Device) bool {
		return len(m.Hardware) > 0 && !slices.Contains(m.Hardware, d.Hardware)
	})
	if m.Sized && len(instances) > 0 {
		return instances
	}
	return found[:1]
}
