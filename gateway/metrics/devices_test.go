package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
)

func TestDevices(t *testing.T) {
	all := devices.Read("h", []executors.DeviceStatus{
		{Host: "h", Device: "cpu/0", Hardware: "cpu", Batches: 3, Busy: 1500 * time.Millisecond},
		{Host: "h", Device: "gpu/GPU-1", Hardware: "h200", Capacity: 100, Executors: 2, Memory: 40},
	}, []devices.GPU{
		{UUID: "GPU-1", Name: "NVIDIA H200", Memory: 100, Used: 60, Utilisation: 0.5, Temperature: 41, Processes: []devices.Process{{PID: 1}}},
		{UUID: "GPU-2", Name: "NVIDIA A100", Memory: 50, Utilisation: devices.Unknown, Temperature: devices.Unknown, Divided: true},
	})
	require.Len(t, all, 3, "devices that are not offered are exported, too")
	m := New()
	m.Registry().MustRegister(Devices(func() []devices.Reading { return all }))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	var got []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "harpagon_device_") || strings.HasPrefix(line, "harpagon_gpu_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, want := range []string{
		`harpagon_device_busy_seconds_total{device="cpu/0",hardware="cpu",host="h"} 1.5`,
		`harpagon_device_batches_total{device="cpu/0",hardware="cpu",host="h"} 3`,
		`harpagon_device_executors{device="gpu/GPU-1",hardware="h200",host="h"} 2`,
		`harpagon_device_executor_memory_bytes{device="gpu/GPU-1",hardware="h200",host="h"} 40`,
		`harpagon_device_memory_offered_bytes{device="gpu/GPU-1",hardware="h200",host="h"} 100`,
		`harpagon_gpu_memory_bytes{device="gpu/GPU-1",hardware="h200",host="h"} 100`,
		`harpagon_gpu_memory_used_bytes{device="gpu/GPU-1",hardware="h200",host="h"} 60`,
		`harpagon_gpu_utilisation_ratio{device="gpu/GPU-1",hardware="h200",host="h"} 0.5`,
		`harpagon_gpu_temperature_celsius{device="gpu/GPU-1",hardware="h200",host="h"} 41`,
		`harpagon_gpu_processes{device="gpu/GPU-1",hardware="h200",host="h"} 1`,
		`harpagon_gpu_divided{device="gpu/GPU-1",hardware="h200",host="h"} 0`,
		`harpagon_gpu_divided{device="gpu/GPU-2",hardware="a100",host="h"} 1`,
	} {
		assert.Contains(t, got, want)
	}
	assert.Len(t, got, 3*6+1+2*4+1+1, "what is not known has no sample")
}
