//go:build cgo && linux

package devices

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NVIDIA lists the GPUs that the NVIDIA driver knows. The driver's library is
// opened for the time of each List only.
func NVIDIA() Lister { return driver{library: nvml.New()} }

// driver is the part of NVML that is needed here. No function may be called
// unless Init has succeeded: without the library, NVML aborts the process.
type driver struct {
	library interface {
		Init() nvml.Return
		Shutdown() nvml.Return
		DeviceGetCount() (int, nvml.Return)
		DeviceGetHandleByIndex(int) (nvml.Device, nvml.Return)
	}
}

// List asks the driver.
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
	gpus := make([]GPU, n)
	for i := range gpus {
		var err error
		if gpus[i], err = d.describe(i); err != nil {
			return nil, err
		}
	}
	return gpus, nil
}

func (d driver) describe(index int) (GPU, error) {
	device, status := d.library.DeviceGetHandleByIndex(index)
	if status != nvml.SUCCESS {
		return GPU{}, failed(fmt.Sprintf("opening GPU %d", index), status)
	}
	uuid, status := device.GetUUID()
	if status != nvml.SUCCESS {
		return GPU{}, failed(fmt.Sprintf("reading the UUID of GPU %d", index), status)
	}
	name, status := device.GetName()
	if status != nvml.SUCCESS {
		return GPU{}, failed(fmt.Sprintf("reading the name of GPU %d", index), status)
	}
	memory, status := device.GetMemoryInfo()
	if status != nvml.SUCCESS {
		return GPU{}, failed(fmt.Sprintf("reading the memory of GPU %d", index), status)
	}
	return GPU{UUID: uuid, Name: name, Memory: int64(memory.Total)}, nil
}

// failed words the status at once, while the library that knows the words is
// still open.
func failed(what string, status nvml.Return) error {
	return fmt.Errorf("%s: %s (NVML status %d)", what, status.Error(), int(status))
}
