package roles

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/scheduler/placement"
)

type noGPUs struct{}

func (noGPUs) List() ([]devices.GPU, error) { return nil, nil }

// A quota that falls below what was offered when the worker started is reported with every
// heartbeat while it lasts.
func TestAQuotaThatChangesIsReported(t *testing.T) {
	offered, err := devices.Local(devices.Config{Host: "one", Cores: 2})
	require.NoError(t, err)
	offered = append(offered, placement.Device{Host: "one", Name: "v100/0", Hardware: "v100"}) // no core
	machine := fstest.MapFS{}
	r := &Worker{Host: &executors.Host{Name: "one", Devices: offered}, gpus: noGPUs{}, machine: machine}
	for _, step := range []struct {
		file string
		want float64
	}{{"max 100000", 0}, {"200000 100000", 0}, {"50000 100000", 0.5}, {"150000 100000", 1.5}, {"300000 100000", 0}, {"", 0}} {
		machine["sys/fs/cgroup/cpu.max"] = &fstest.MapFile{Data: []byte(step.file)}
		all := r.Readings()
		require.Len(t, all, 3)
		for _, d := range all {
			require.Equal(t, step.want, d.Quota, step.file)
		}
	}
}
