package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// offered are the devices of a worker: those of this machine, or emulated ones, so many of
// each kind.
func offered(local devices.Config, gpus bool, emulate map[string]int) ([]placement.Device, error) {
	if kind := local.Kind; kind != "" && !pipelines.IsName(kind) {
		return nil, fmt.Errorf("--hardware %q cannot name a kind of hardware: use letters, digits, dots, hyphens and underscores, and start with a letter or digit", kind)
	}
	if len(emulate) > 0 && (local.Cores != 0 || local.Kind != "" || gpus) {
		return nil, errors.New("a worker offers what is there or what is not; leave out --cores, --hardware and --gpus, or --emulate")
	}
	var kinds []pipelines.Hardware
	for _, kind := range slices.Sorted(maps.Keys(emulate)) {
		if !pipelines.IsName(kind) || emulate[kind] < 1 {
			return nil, fmt.Errorf("--emulate %s=%d offers nothing; say KIND=N with N of at least 1, such as v100=50", kind, emulate[kind])
		}
		kinds = append(kinds, pipelines.Hardware{Name: kind, Count: emulate[kind]})
	}
	if len(kinds) > 0 {
		return devices.Emulated(local.Host, kinds, 0), nil
	}
	if gpus {
		local.GPUs = devices.NVIDIA()
	}
	return devices.Local(local)
}
