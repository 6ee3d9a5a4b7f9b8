package system

import (
	"io"
	"slices"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/executors/process"
	"github.com/harpagon/harpagon/executors/remote"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// emulatedDevices stands in for "as many as you like" of a kind of hardware
// that declares no count.
const emulatedDevices = 32

// ChildMain must be the first thing in main of a program that runs a system:
// networks run in child processes, which are the same program started again.
// In such a child it serves the engine and does not return; elsewhere it does
// nothing.
func ChildMain() {
	subprocess.Supervise()
	if child.Requested() {
		all := []executors.Engine{gorgonia.New()}
		for _, p := range onnxruntime.Providers() {
			all = append(all, onnxruntime.New(onnxruntime.Options{Provider: p}))
		}
		child.Serve(all...)
	}
}

// EngineOptions of running engines.
type EngineOptions struct {
	Functions *steps.Registry    // processing steps; nil means the built-in ones
	Command   []string           // that networks run in as child processes; empty: this program
	Env       []string           // of these and of commands of users, beside this process's
	Log       io.Writer          // gets what they print
	Own       []executors.Engine // of a program
}

// Engines are all engines of the project, and those of a program.
// pipelines.Engines lists what declarations may set of them.
func Engines(o EngineOptions) []executors.Engine {
	if o.Functions == nil {
		o.Functions = steps.Builtin()
	}
	all := []executors.Engine{steps.New(o.Functions), o.inChild(gorgonia.New())}
	for _, p := range onnxruntime.Providers() {
		by := onnxruntime.Options{Provider: p}
		all = append(all, onnxruntime.InChild(o.inChild(onnxruntime.New(by)), by))
	}
	all = append(all, remote.New(remote.Options{}), process.New(process.Options{Supervisor: o.Command, Env: o.Env, Output: o.Log}))
	all = append(all, o.Own...)
	return append(all, emulated.New(emulated.Options{Signatures: executors.Signatures(all...), Echo: true}))
}

func (o *EngineOptions) inChild(e executors.Engine) executors.Engine {
	return child.New(e.Name(), child.Options{Command: o.Command, Env: o.Env, Version: e.Version(), Output: o.Log})
}

// Devices are those of this machine, and one for each kind of hardware that only
// modules on model servers are declared to run on, or as many as it counts; where
// everything is emulated, those of the declaration. GPUs are offered on request only, since
// few engines use them.
func Devices(host string, doc pipelines.Document, engine string, cores int, gpus bool) ([]placement.Device, error) {
	if engine == executors.EngineEmulated || engine == "" && allEmulated(doc) {
		return devices.Emulated(host, doc.Hardware, emulatedDevices), nil
	}
	instances, left := declaredInstances(host, doc, cores)
	c := devices.Config{Host: host, Cores: left}
	if gpus {
		c.GPUs = devices.NVIDIA()
	}
	all, err := devices.Local(c)
	all = append(instances, all...)
	return append(all, serverDevices(host, doc, all)...), err
}

// declaredInstances divides the cores of the machine among kinds of hardware with declared
// cores, count instances of each or one, as far as cores go; left is the number of cores
// left, less than 0 for none.
func declaredInstances(host string, doc pipelines.Document, cores int) (all []placement.Device, left int) {
	if !slices.ContainsFunc(doc.Hardware, func(h pipelines.Hardware) bool { return h.Cores > 0 }) {
		return nil, cores
	}
	if left = cores; left == 0 {
		left = osutil.Cores()
	}
	for _, h := range doc.Hardware {
		for i := 0; h.Cores > 0 && i < max(h.Count, 1) && left >= h.Cores; i++ {
			all, left = append(all, devices.Instance(host, h.Name, i, h.Cores, h.Memory)), left-h.Cores
		}
	}
	if left == 0 {
		left = -1
	}
	return all, left
}

// serverDevices stand for model servers elsewhere.
func serverDevices(host string, doc pipelines.Document, local []placement.Device) []placement.Device {
	remote := map[string]bool{}
	services := slices.Clone(doc.Pipelines)
	for i := range doc.Pools {
		services = append(services, doc.Pools[i].Served())
	}
	for _, p := range services {
		for _, m := range p.Modules {
			for _, kind := range m.Hardware {
				only, seen := remote[kind]
				remote[kind] = (only || !seen) && executors.EngineName(m) == executors.EngineRemote
			}
		}
	}
	for _, d := range local {
		remote[d.Hardware] = false
	}
	var kinds []pipelines.Hardware
	for _, h := range doc.Hardware {
		if remote[h.Name] {
			kinds = append(kinds, h)
		}
	}
	return devices.Emulated(host, kinds, 1)
}

func allEmulated(doc pipelines.Document) bool {
	n := 0
	for _, p := range doc.Pipelines {
		for _, m := range p.Modules {
			if executors.EngineName(m) != executors.EngineEmulated {
				return false
			}
			n++
		}
	}
	for _, p := range doc.Pools {
		if !p.Emulated() {
			return false
		}
		n++
	}
	return n > 0
}
