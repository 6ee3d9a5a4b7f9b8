package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
)

func TestStatusNamesQuotas(t *testing.T) {
	all := readings()
	var out bytes.Buffer
	require.NoError(t, writeDevices(&out, all))
	require.NotContains(t, out.String(), "quota")
	for i := range all {
		all[i].Quota = 0.5
	}
	require.NoError(t, writeDevices(&out, all))
	require.Equal(t, 1, strings.Count(out.String(), "offers more cores than the 0.5 that the quota of its container has"), "once for each host")
	require.Equal(t, 0.5, deviceRows(all)[0].Quota)
}

func readings() []devices.Reading {
	const gib = 1 << 30
	status := func(device, hardware string, capacity int64) executors.DeviceStatus {
		return executors.DeviceStatus{Host: "one", Device: device, Hardware: hardware, Capacity: capacity}
	}
	core := status("cpu/0", "cpu", 0)
	core.Executors, core.Memory, core.Batches, core.Items, core.Busy = 2, 300<<20, 10, 35, 1500*time.Millisecond
	return []devices.Reading{
		{DeviceStatus: core},
		{DeviceStatus: status("gpu/GPU-1", "h200", 130*gib), GPU: &devices.GPU{
			UUID: "GPU-1", Name: "NVIDIA H200", Memory: 141 * gib, Used: 11 * gib, Utilisation: 0.25, Temperature: 40,
			Processes: []devices.Process{{PID: 7, Memory: gib}, {PID: 8, Memory: devices.Unknown}},
		}},
		{DeviceStatus: status("gpu/GPU-2", "a100", 0), GPU: &devices.GPU{UUID: "GPU-2", Name: "NVIDIA A100", Memory: 40 * gib, Utilisation: devices.Unknown, Temperature: 35, Divided: true}},
		{DeviceStatus: status("gpu/MIG-1", "a100-mig-1g-5gb", 5*gib), GPU: &devices.GPU{UUID: "MIG-1", Memory: 5 * gib, Utilisation: devices.Unknown, Temperature: devices.Unknown, Part: "GPU-2"}},
	}
}

func TestDevicesAreShown(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeDevices(&b, nil))
	require.Empty(t, b.String())
	require.NoError(t, writeDevices(&b, readings()))
	assert.Equal(t, `
device         hardware         executors  batches  busy s  memory MiB       in use   temperature  processes
one/cpu/0      cpu              2          10       1.5     300              -        -            -
one/gpu/GPU-1  h200             0          0        0.0     11264 of 144384  25 %     40 C         2
one/gpu/GPU-2  a100             0          0        0.0     0 of 40960       divided  35 C         0
one/gpu/MIG-1  a100-mig-1g-5gb  0          0        0.0     0 of 5120        -        -            0
`, b.String())
}

func TestDevicesInJSON(t *testing.T) {
	raw, err := json.Marshal(deviceRows(readings()))
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"host":"one","device":"cpu/0","hardware":"cpu","executors":2,"batches":10,"items":35,"waiting":0,"busy_ms":1500,"executors_mib":300},
		{"host":"one","device":"gpu/GPU-1","hardware":"h200","executors":0,"batches":0,"items":0,"waiting":0,"busy_ms":0,"executors_mib":0,"offered_mib":133120,
		 "gpu":{"name":"NVIDIA H200","memory_mib":144384,"used_mib":11264,"utilisation":0.25,"temperature_celsius":40,"processes":[{"pid":7,"used_mib":1024},{"pid":8}]}},
		{"host":"one","device":"gpu/GPU-2","hardware":"a100","executors":0,"batches":0,"items":0,"waiting":0,"busy_ms":0,"executors_mib":0,
		 "gpu":{"name":"NVIDIA A100","memory_mib":40960,"used_mib":0,"temperature_celsius":35,"divided":true,"processes":[]}},
		{"host":"one","device":"gpu/MIG-1","hardware":"a100-mig-1g-5gb","executors":0,"batches":0,"items":0,"waiting":0,"busy_ms":0,"executors_mib":0,"offered_mib":5120,
		 "gpu":{"name":"","memory_mib":5120,"used_mib":0,"part_of":"GPU-2","processes":[]}}
	]`, string(raw))
}
