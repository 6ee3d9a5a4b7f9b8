// Package devices finds what a host can run modules on.
//
// Every CPU core is a device of hardware "cpu", because the engines run one
// thread per batch. Every NVIDIA GPU is a device of the hardware derived from its name; the
// names come from the driver through NVML. Where the program is built without cgo, or not for
// Linux, or the machine has no NVIDIA driver, there are no GPUs, and that is no error.
//
// NVML also reports a GPU's memory in use, utilisation, temperature and processes. GPUs that
// are divided (MIG) are offered in their parts. Recent limits how often the driver is read.
package devices

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// CPU is the hardware name of a processor core.
const CPU = "cpu"

// Config states what a host offers.
type Config struct {
	Host   string
	Cores  int   // processor cores; 0 means all that the program may use, less than 0 means none
	Memory int64 // bytes of main memory to offer, divided evenly among the cores; 0 when unknown

	// Kind, where given, makes one instance of that kind of all Cores, in place of a
	// device for each.
	Kind string

	// GPUs lists the graphics devices; nil means none. See NVIDIA.
	GPUs Lister

	// Hardware gives a GPU's hardware name by the driver's name for it. Others get
	// the one that hardwareName derives.
	Hardware map[string]string
}

// Lister finds graphics devices. A machine without any is no error.
type Lister interface {
	List() ([]GPU, error)
}

// Unknown stands for what a driver does not report, such as the utilisation of a part of a GPU.
const Unknown = -1

// GPU is a graphics device as its driver describes it, at one moment.
type GPU struct {
	UUID   string
	Name   string // "NVIDIA A100-SXM4-40GB"
	Memory int64  // bytes
	Used   int64  // bytes in use by all processes

	Utilisation float64 // part of the last moments in which it computed, 0 to 1; or Unknown
	Temperature int     // degrees Celsius; or Unknown
	Processes   []Process

	// Divided means that the GPU has been divided into instances (MIG), which
	// are devices of their own, so that it cannot be used as a whole. Part is set for such an
	// instance, and names its GPU.
	Divided bool
	Part    string // UUID of the whole
}

// Process computes on a GPU.
type Process struct {
	PID    int
	Memory int64 // bytes; or Unknown
}

// Device is the name under which the GPU is offered.
func (g GPU) Device() string { return gpuPrefix + g.UUID }

const gpuPrefix = "gpu/"

// Visible is the value of the variable CUDA_VISIBLE_DEVICES with which NVIDIA's libraries
// compute on the device of that name and no other; empty for devices that are no GPUs.
func Visible(device string) string {
	uuid, found := strings.CutPrefix(device, gpuPrefix)
	if !found {
		return ""
	}
	return uuid
}

// Local returns the devices of this machine, the cores first. Their names are
// "cpu/0", "cpu/1", ... and "gpu/<UUID>". Of a GPU's memory the part is offered that is not in
// use; a divided GPU is left out, its parts are offered. When the GPUs cannot be listed, the
// cores are returned with the error.
func Local(c Config) ([]placement.Device, error) {
	cores := c.Cores
	if cores == 0 {
		cores = osutil.Cores()
	}
	var all []placement.Device
	if c.Kind != "" && cores > 0 {
		all, cores = append(all, Instance(c.Host, c.Kind, 0, cores, c.Memory)), 0
	}
	for i := range max(cores, 0) {
		all = append(all, placement.Device{Host: c.Host, Name: fmt.Sprintf("%s/%d", CPU, i), Hardware: CPU, Memory: c.Memory / int64(cores)})
	}
	if c.GPUs == nil {
		return all, nil
	}
	gpus, err := c.GPUs.List()
	if err != nil {
		return all, fmt.Errorf("executors/devices: listing GPUs: %w", err)
	}
	for _, g := range gpus {
		if g.Divided {
			continue
		}
		hardware, named := c.Hardware[g.Name]
		if !named {
			hardware = hardwareName(g.Name)
		}
		all = append(all, placement.Device{Host: c.Host, Name: g.Device(), Hardware: hardware, Memory: max(g.Memory-g.Used, 1)})
	}
	return all, nil
}

// HaveGPU reports whether one of the devices is a GPU of the driver.
func HaveGPU(all []placement.Device) bool {
	return slices.ContainsFunc(all, func(d placement.Device) bool { return Visible(d.Name) != "" })
}

// NoGPU is the error of --gpus where there is none.
const NoGPU = "--gpus: NVIDIA's driver lists no GPU on this machine, so none is offered; nvidia-smi shows what it finds"

// Instance is number i of a kind of instances that a host offers so many of its cores
// as.
func Instance(host, kind string, i, cores int, memory int64) placement.Device {
	return placement.Device{Host: host, Name: fmt.Sprintf("%s/%d", kind, i), Hardware: kind, Memory: memory, Cores: cores}
}

// hardwareName derives a hardware name from the driver's name of a GPU: in
// lower case, joined by hyphens, without the maker's and the brand's name.
// "Tesla V100-SXM2-16GB" becomes "v100-sxm2-16gb", "NVIDIA H200" "h200".
func hardwareName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	var kept []string
	for _, w := range words {
		switch w {
		case "nvidia", "tesla", "geforce", "quadro", "graphics", "device":
		default:
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		return "gpu"
	}
	return strings.Join(kept, "-")
}

// Emulated makes devices that stand for hardware that is not there, for the
// emulated engine: as many of each kind as its Count, or unlimited where it has none. Their
// names are "v100/0", "v100/1", ...
func Emulated(host string, hardware []pipelines.Hardware, unlimited int) []placement.Device {
	var all []placement.Device
	for _, h := range hardware {
		n := h.Count
		if n == 0 {
			n = unlimited
		}
		for i := range n {
			all = append(all, placement.Device{Host: host, Name: fmt.Sprintf("%s/%d", h.Name, i), Hardware: h.Name, Memory: h.Memory})
		}
	}
	return all
}

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

// Reading is how a device is doing: what executors use of it, and what the
// driver reports where it is a GPU. It travels as JSON.
type Reading struct {
	executors.DeviceStatus
	GPU *GPU `json:",omitempty"`

	// Quota is how many processors the host's container may use, where those are fewer than
	// the cores that the host offers; else 0.
	Quota float64 `json:",omitempty"`
}

// Cores is how many cores of its machine a host offers.
func Cores(all []placement.Device) (n int) {
	for _, d := range all {
		if n += d.Cores; d.Hardware == CPU && d.Cores == 0 {
			n++
		}
	}
	return n
}

// Read joins a host's statuses of its devices with the driver's readings. GPUs that the host
// does not offer follow those that it does.
func Read(host string, statuses []executors.DeviceStatus, gpus []GPU) []Reading {
	all := make([]Reading, 0, len(statuses)+len(gpus))
	for _, s := range statuses {
		all = append(all, Reading{DeviceStatus: s})
	}
	for _, g := range gpus {
		name := g.Device()
		at := slices.IndexFunc(all, func(r Reading) bool { return r.Device == name })
		if at < 0 {
			at = len(all)
			all = append(all, Reading{DeviceStatus: executors.DeviceStatus{Host: host, Device: name, Hardware: hardwareName(g.Name)}})
		}
		all[at].GPU = &g
	}
	return all
}

// Recent is a Lister that calls another at most once per period, for frequent readers: opening
// the driver takes a while.
func Recent(l Lister, every time.Duration) Lister { return &recent{from: l, every: every} }

type recent struct {
	from  Lister
	every time.Duration

	mu   sync.Mutex
	at   time.Time
	gpus []GPU
	err  error
}

// List is the latest list of the other, read again where it is too old.
func (r *recent) List() ([]GPU, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= r.every {
		r.gpus, r.err = r.from.List()
		r.at = now
	}
	return r.gpus, r.err
}
