//go:build cgo && linux

package devices

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NVIDIA lists the GPUs of the NVIDIA driver. The driver's library is opened for the time of
// each List only.
func NVIDIA() Lister { return driver{library: nvml.New()} }

// driver is the part of NVML that is needed here. No function may be called
// unless Init has succeeded: without the library, NVML aborts the process. So it
// does for a function that an old library lacks; those that have not always been
// there are looked up first.
type driver struct {
	library interface {
		Init() nvml.Return
		Shutdown() nvml.Return
		Extensions() nvml.ExtendedInterface
		DeviceGetCount() (int, nvml.Return)
		DeviceGetHandleByIndex(int) (nvml.Device, nvml.Return)
	}
}

// partsSymbol came with the functions for divided GPUs.
const partsSymbol = "nvmlDeviceGetMigMode"

// List reads the driver. Parts of a GPU follow the whole.
func (d driver) List() ([]GPU, error) {
	switch status := d.library.Init(); status {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, nil
	default:
		return nil, failed("starting NVML", status)
	}
	defer d.library.Shutdown()
	n, status := d.library.DeviceGetCount()
	if status != nvml.SUCCESS {
		return nil, failed("counting", status)
	}
	var gpus []GPU
	for i := range n {
		what := fmt.Sprintf("GPU %d", i)
		device, status := d.library.DeviceGetHandleByIndex(i)
		if status != nvml.SUCCESS {
			return nil, failed("opening "+what, status)
		}
		gpu, err := describe(device, what)
		if err != nil {
			return nil, err
		}
		parts, err := d.parts(device, &gpu, what)
		if err != nil {
			return nil, err
		}
		gpus = append(append(gpus, gpu), parts...)
	}
	return gpus, nil
}

// describe fails without what placing needs; the rest may be unknown.
func describe(device nvml.Device, what string) (GPU, error) {
	uuid, status := device.GetUUID()
	if status != nvml.SUCCESS {
		return GPU{}, failed("reading the UUID of "+what, status)
	}
	name, status := device.GetName()
	if status != nvml.SUCCESS {
		return GPU{}, failed("reading the name of "+what, status)
	}
	memory, status := device.GetMemoryInfo()
	if status != nvml.SUCCESS {
		return GPU{}, failed("reading the memory of "+what, status)
	}
	g := GPU{UUID: uuid, Name: name, Memory: int64(memory.Total), Used: int64(memory.Used), Utilisation: Unknown, Temperature: Unknown}
	if u, status := device.GetUtilizationRates(); status == nvml.SUCCESS {
		g.Utilisation = float64(u.Gpu) / 100
	}
	if t, status := device.GetTemperature(nvml.TEMPERATURE_GPU); status == nvml.SUCCESS {
		g.Temperature = int(t)
	}
	if all, status := device.GetComputeRunningProcesses(); status == nvml.SUCCESS {
		for _, p := range all {
			g.Processes = append(g.Processes, Process{PID: int(p.Pid), Memory: processMemory(p.UsedGpuMemory)})
		}
	}
	return g, nil
}

// processMemory is what a process uses; the largest number stands for a value that the driver
// may not report.
func processMemory(bytes uint64) int64 {
	if bytes > 1<<62 {
		return Unknown
	}
	return int64(bytes)
}

// parts lists the instances of a divided GPU and marks the whole.
func (d driver) parts(device nvml.Device, whole *GPU, what string) ([]GPU, error) {
	if d.library.Extensions().LookupSymbol(partsSymbol) != nil {
		return nil, nil
	}
	mode, _, status := device.GetMigMode()
	if status != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil, nil // most GPUs cannot be divided, and fail here
	}
	whole.Divided = true
	most, status := device.GetMaxMigDeviceCount()
	if status != nvml.SUCCESS {
		return nil, failed("counting the parts of "+what, status)
	}
	var parts []GPU
	for i := range most {
		part := fmt.Sprintf("part %d of %s", i, what)
		handle, status := device.GetMigDeviceHandleByIndex(i)
		if status == nvml.ERROR_NOT_FOUND {
			continue
		}
		if status != nvml.SUCCESS {
			return nil, failed("opening "+part, status)
		}
		g, err := describe(handle, part)
		if err != nil {
			return nil, err
		}
		g.Part = whole.UUID
		if g.Temperature == Unknown {
			g.Temperature = whole.Temperature
		}
		parts = append(parts, g)
	}
	return parts, nil
}

// failed formats the status at once, while the library with its text is still open.
func failed(what string, status nvml.Return) error {
	return fmt.Errorf("%s: %s (NVML status %d)", what, status.Error(), int(status))
}
