//go:build cgo && linux

package devices

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"
)

func TestDriverListsADGX(t *testing.T) {
	server := dgxa100.New()
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
		server := dgxa100.New()
		spoil(server, server.Devices[3].(*dgxa100.Device))
		_, err := driver{library: server}.List()
		require.ErrorContains(t, err, says)
	}
}
