//go:build cgo && linux

package devices

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// dgx is the library's mock, with what it leaves out set: GPU i is i % busy,
// 30+i degrees warm and runs i processes.
func dgx() *dgxa100.Server {
	server := dgxa100.New()
	for i := range server.Devices {
		d := server.Devices[i].(*dgxa100.Device)
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: uint32(i)}, nvml.SUCCESS
		}
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return uint32(30 + i), nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			all := make([]nvml.ProcessInfo, i)
			for k := range all {
				all[k] = nvml.ProcessInfo{Pid: uint32(100 + k), UsedGpuMemory: 1 << 30}
			}
			return all, nvml.SUCCESS
		}
	}
	return server
}

func mocked(server *dgxa100.Server, i int) *dgxa100.Device {
	return server.Devices[i].(*dgxa100.Device)
}

func TestDriverListsADGX(t *testing.T) {
	server := dgx()
	closed := 0
	server.ShutdownFunc = func() nvml.Return { closed++; return nvml.SUCCESS }
	got, err := Local(Config{Host: "dgx", Cores: -1, GPUs: driver{library: server}})
	require.NoError(t, err)
	require.Len(t, got, 8)
	for _, d := range got {
		require.True(t, strings.HasPrefix(d.Name, "gpu/GPU-"), d.Name)
		require.Equal(t, "mock-a100-sxm4-40gb", d.Hardware)
		require.EqualValues(t, 40<<30, d.Memory)
	}
	require.Equal(t, 1, closed)
}

func TestDriverReportsUseOfGPUs(t *testing.T) {
	server := dgx()
	const gib = 1 << 30
	mocked(server, 2).MemoryInfo = nvml.Memory{Total: 40 * gib, Used: 10 * gib, Free: 30 * gib}
	const refused = nvml.ERROR_NOT_SUPPORTED
	d := mocked(server, 3)
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, refused }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, refused }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, refused }
	mocked(server, 1).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
	}
	list, err := driver{library: server}.List()
	require.NoError(t, err)
	require.Len(t, list, 8)
	require.Equal(t, []Process{{PID: 7, Memory: Unknown}}, list[1].Processes)
	require.Equal(t, GPU{
		UUID: mocked(server, 2).UUID, Name: "Mock NVIDIA A100-SXM4-40GB", Memory: 40 * gib, Used: 10 * gib,
		Utilisation: 0.02, Temperature: 32, Processes: []Process{{100, gib}, {101, gib}},
	}, list[2])
	require.EqualValues(t, Unknown, list[3].Utilisation)
	require.Equal(t, Unknown, list[3].Temperature)
	require.Empty(t, list[3].Processes)
	offered, err := Local(Config{Cores: -1, GPUs: driver{library: server}})
	require.NoError(t, err)
	require.EqualValues(t, 30*gib, offered[2].Memory, "what others use is not offered")
}

func TestADividedGPUIsOfferedInParts(t *testing.T) {
	server := dgx()
	whole := mocked(server, 5)
	whole.MigMode = nvml.DEVICE_MIG_ENABLE
	part := func(i int) *mock.Device {
		return &mock.Device{
			GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", i), nvml.SUCCESS },
			GetNameFunc: func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
				return nvml.Memory{Total: 5 << 30, Used: 1 << 30}, nvml.SUCCESS
			},
			GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED },
			GetTemperatureFunc:      func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: uint32(i), UsedGpuMemory: 3}}, nvml.SUCCESS
			},
		}
	}
	whole.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	whole.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i%3 != 0 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return part(i), nvml.SUCCESS
	}
	list, err := driver{library: server}.List()
	require.NoError(t, err)
	require.Len(t, list, 11)
	require.True(t, list[5].Divided)
	require.Equal(t, GPU{
		UUID: "MIG-3", Name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", Memory: 5 << 30, Used: 1 << 30,
		Utilisation: Unknown, Temperature: 35, Processes: []Process{{3, 3}}, Part: list[5].UUID,
	}, list[7])
	offered, err := Local(Config{Cores: -1, GPUs: driver{library: server}})
	require.NoError(t, err)
	require.Len(t, offered, 10, "seven that are whole, and three parts")
	require.Equal(t, placement.Device{Name: "gpu/MIG-0", Hardware: "a100-sxm4-40gb-mig-1g-5gb", Memory: 4 << 30}, offered[5])

	whole.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	_, err = driver{library: server}.List()
	require.ErrorContains(t, err, "counting the parts of GPU 5")
	server.LookupSymbolFunc = func(string) error { return errors.New("the library is older") }
	list, err = driver{library: server}.List()
	require.NoError(t, err)
	require.Len(t, list, 8)
}

func TestWithoutDriverNothingElseIsCalled(t *testing.T) {
	for _, status := range []nvml.Return{nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED} {
		server := new(dgxa100.Server) // panics at every call that is not set
		server.InitFunc = func() nvml.Return { return status }
		list, err := driver{library: server}.List()
		require.NoError(t, err)
		require.Empty(t, list)
	}
	server := new(dgxa100.Server)
	server.InitFunc = func() nvml.Return { return nvml.ERROR_NO_PERMISSION }
	_, err := driver{library: server}.List()
	require.ErrorContains(t, err, "starting NVML")
}

func TestDriverErrorsSayWhatFailed(t *testing.T) {
	const lost = nvml.ERROR_GPU_IS_LOST
	for says, spoil := range map[string]func(*dgxa100.Server, *dgxa100.Device){
		"counting": func(s *dgxa100.Server, _ *dgxa100.Device) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, lost }
		},
		"opening GPU 8": func(s *dgxa100.Server, _ *dgxa100.Device) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 9, nvml.SUCCESS }
		},
		"reading the UUID of GPU 3": func(_ *dgxa100.Server, d *dgxa100.Device) {
			d.GetUUIDFunc = func() (string, nvml.Return) { return "", lost }
		},
		"reading the name of GPU 3": func(_ *dgxa100.Server, d *dgxa100.Device) {
			d.GetNameFunc = func() (string, nvml.Return) { return "", lost }
		},
		"reading the memory of GPU 3": func(_ *dgxa100.Server, d *dgxa100.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, lost }
		},
	} {
		server := dgx()
		spoil(server, server.Devices[3].(*dgxa100.Device))
		_, err := driver{library: server}.List()
		require.ErrorContains(t, err, says)
	}
}
