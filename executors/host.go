package executors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/secure"
)

// Names of the engines that EngineFor chooses by itself.
const (
	EngineFunction = pipelines.EngineFunction
	EngineFast     = "onnxruntime" // for networks, where its library is found
	EngineNetwork  = "gorgonia"    // for networks everywhere else
	EngineEmulated = pipelines.EngineEmulated
	EngineRemote   = pipelines.EngineRemote  // for addresses of models
	EngineProcess  = pipelines.EngineProcess // for commands
)

// Host is one machine: its devices and its engines. Fill in the fields, then
// use it from as many goroutines as there are executors; do not copy it.
type Host struct {
	Name    string
	Devices []placement.Device // empty: any device name is taken
	Engines []Engine

	// Dial opens a stream to the gateway at the address. The stream ends when
	// ctx ends, or at Close, whichever comes first; either ends a Recv.
	Dial func(ctx context.Context, address string) (attach.Stream, error)

	// Loop opens such a stream to this host itself, over which instances of pools
	// are measured; nil means in memory.
	Loop Loopback

	// Gateways are those that executors attach to; without any, each to the one that
	// its task names.
	Gateways attach.Addresses

	// ForceEngine, when set, is the engine of every module, whatever is declared.
	ForceEngine string

	// Content has the files of modules that were applied with digests; nil takes
	// files where the declaration names them, as they are when they are loaded.
	Content *content.Cache

	// Confine states what modules may have the host read, run and call.
	Confine Confinement

	// Busy reports how much of the processors is used, for Measure; nil means
	// Read.
	Busy func() (ProcessorReading, error)

	// Notice receives a line when batch sizes do not fit a device, and when another engine serves a module than the
	// declared one; may be nil.
	Notice func(string)

	Memory MemoryBound // of what steps make; nil for none

	Retry        Backoff       // between attempts to attach and to reload
	DrainTimeout time.Duration // for orderly draining after cancellation; zero is DefaultDrainTimeout

	mu      sync.Mutex
	devices map[string]*deviceQueue
	running map[string]*executor
	noticed map[string]bool
}

// DefaultDrainTimeout is how long a cancelled executor may take to finish what
// it holds.
const DefaultDrainTimeout = 30 * time.Second

func (h *Host) engine(name, module string) (Engine, error) {
	var have []string
	for _, e := range h.Engines {
		if e.Name() == name {
			return e, nil
		}
		have = append(have, e.Name())
	}
	slices.Sort(have)
	return nil, fmt.Errorf("executors: module %q needs engine %q, but host %q has only: %s; "+
		"set engine in the module, or start the worker with that engine", module, name, h.Name, strings.Join(have, ", "))
}

// place makes the files of a module ready (see content.Cache), if the host may run it.
func (h *Host) place(ctx context.Context, m pipelines.Module) (placed pipelines.Module, release func(), err error) {
	if err := h.Confine.Check(m); err != nil {
		return m, nil, err
	}
	if h.Content == nil {
		return m, func() {}, nil
	}
	return h.Content.Place(ctx, m)
}

// Signatures is the function Signatures for what this host runs, whose files it has
// or fetches.
func (h *Host) Signatures() pipelines.SignatureFunc {
	read := Signatures(h.Engines...)
	return func(m pipelines.Module) (pipelines.Signature, error) {
		m, release, err := h.place(context.Background(), m)
		if err != nil {
			return pipelines.Signature{}, err
		}
		defer release()
		return read(m)
	}
}

// engineOf is EngineFor, unless the slot names an engine.
func (h *Host) engineOf(t Task) (Engine, error) {
	if name := t.Slot.Engine; h.ForceEngine == "" && name != "" && name != pipelines.EngineAuto {
		e, err := h.engine(name, t.Module.Name)
		return fixing(e, err, t.Module)
	}
	return h.engineFor(t.Module)
}

// device returns the queue of a device, which all executors on it share.
func (h *Host) device(name string) (*deviceQueue, error) {
	known := func(d placement.Device) bool { return d.Name == name }
	if len(h.Devices) > 0 && !slices.ContainsFunc(h.Devices, known) {
		return nil, fmt.Errorf("executors: host %q has no device %q; place the executor again on a device that exists", h.Name, name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.devices == nil {
		h.devices = make(map[string]*deviceQueue)
	}
	if h.devices[name] == nil {
		h.devices[name] = new(deviceQueue)
	}
	return h.devices[name], nil
}

// enter registers an executor under its name, so that Executors finds it.
func (h *Host) enter(e *executor) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := e.task.Slot.Executor
	if h.running[name] != nil {
		return fmt.Errorf("executors: executor %q already runs on host %q; wait until it has stopped", name, h.Name)
	}
	if h.running == nil {
		h.running = make(map[string]*executor)
	}
	h.running[name] = e
	e.device.Join()
	return nil
}

func (h *Host) leave(e *executor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, e.task.Slot.Executor)
	e.device.Leave()
}

// coresOf is how many processor cores a device of the host has that is an instance; 0
// of any other.
func (h *Host) coresOf(device string) int {
	for _, d := range h.Devices {
		if d.Name == device {
			return d.Cores
		}
	}
	return 0
}

// Executors reports how every executor of the host is doing, sorted by name.
func (h *Host) Executors() []Status {
	h.mu.Lock()
	all := make([]Status, 0, len(h.running))
	for _, e := range h.running {
		all = append(all, e.status())
	}
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Executor, b.Executor) })
	return all
}

// Status reports how one executor is doing; false when it does not run here.
func (h *Host) Status(name string) (Status, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.running[name]
	if e == nil {
		return Status{}, false
	}
	return e.status(), true
}

// Confinement is what declarations may have a host read, run and call. A list without
// entries confines nothing.
type Confinement struct {
	// Folders are those from which models and files may be read by their paths. A file that is
	// named by its digest was supplied when the declaration was applied, and may come from
	// anywhere.
	Folders []string

	// Commands are the programs that modules may run, as declarations write them. One that
	// interprets its arguments, such as a shell, allows everything.
	Commands []string

	// Addresses are HOST or HOST:PORT of servers from which models or answers may be requested.
	Addresses []string
}

// Check reports why a module must not run on the host.
func (c Confinement) Check(m pipelines.Module) error {
	if len(m.Command) > 0 && len(c.Commands) > 0 && !slices.Contains(c.Commands, m.Command[0]) {
		return fmt.Errorf("module %q needs to run %q, which this host does not allow; start its worker with --allow-command %s if it is to be trusted", m.Name, m.Command[0], m.Command[0])
	}
	if pipelines.IsRemote(m.Model) || pipelines.IsFetched(m.Model) {
		return c.checkAddress(m)
	}
	if len(c.Folders) == 0 {
		return nil
	}
	for _, path := range m.Libraries { // code, even if pinned by its digest
		if !within(path, c.Folders) {
			return fmt.Errorf("module %q needs to load the library %q, which is in no folder that this host allows; start its worker with --allow-folder %s if it is to be trusted", m.Name, path, filepath.Dir(path))
		}
	}
	for _, path := range slices.Concat([]string{m.Model}, m.Files, m.ParameterFiles()) {
		if path != "" && !byDigest(m, path) && !within(path, c.Folders) {
			return fmt.Errorf("module %q needs to read %q, which is in no folder that this host allows; start its worker with --allow-folder %s if it is to be trusted", m.Name, path, filepath.Dir(path))
		}
	}
	return nil
}

func (c Confinement) checkAddress(m pipelines.Module) error {
	to, ok := secure.AllowedAddress(m.Model, c.Addresses)
	if ok {
		return nil
	}
	return fmt.Errorf("module %q needs to call %s, which this host does not allow; start its worker with --allow-address %s if it is to be trusted", m.Name, to, to)
}

func byDigest(m pipelines.Module, path string) bool {
	return slices.ContainsFunc(m.Content, func(f pipelines.File) bool { return f.Path == path && f.Digest != "" })
}

// within reports whether a path leads into one of the folders, also through links.
func within(path string, folders []string) bool {
	path = resolved(path)
	return slices.ContainsFunc(folders, func(folder string) bool {
		rest, err := filepath.Rel(resolved(folder), path)
		return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(os.PathSeparator))
	})
}

// resolved is where a path really leads; of one that does not exist, where it would.
func resolved(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}
