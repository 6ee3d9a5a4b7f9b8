package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/sdk/local/roles"
)

// layout is the version of the state folder. It changes when an older program
// could not read what a newer one writes, or the other way round.
const layout = "2"

// Folder is a state folder.
type Folder string

// Files of a state folder.
func (f Folder) database() string    { return filepath.Join(string(f), "temporal.db") }
func (f Folder) version() string     { return filepath.Join(string(f), "version") }
func (f Folder) lockFile() string    { return filepath.Join(string(f), "lock") }
func (f Folder) endpoints() string   { return filepath.Join(string(f), "endpoints.json") }
func (f Folder) devices() string     { return filepath.Join(string(f), "devices.json") }
func (f Folder) log(n string) string { return filepath.Join(string(f), n+".log") }

// Profiles is the folder of measured profiles.
func (f Folder) Profiles() string { return filepath.Join(string(f), "profiles") }

// Models is the folder of what modules need, by digest: a content.Folder.
func (f Folder) Models() string { return filepath.Join(string(f), "models") }

// Hosts is the folder in which a control role remembers the hosts that it has made.
func (f Folder) Hosts() string { return filepath.Join(string(f), "hosts") }

// private is the mode of state folders: declarations and logs are for their owner only.
const private = 0o700

// open makes the folder ready: creates it, checks its version, and locks it
// until the function that it returns is called.
func (f Folder) open() (unlock func(), err error) {
	if err := os.MkdirAll(string(f), private); err != nil {
		return nil, fmt.Errorf("harpagon: creating the state folder: %w", err)
	}
	unlock, err = f.lock()
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		unlock()
		return nil, err
	}
	if err := os.Chmod(string(f), private); err != nil { // one that was there before
		unlock()
		return nil, fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	return unlock, nil
}

func (f Folder) check() error {
	b, err := os.ReadFile(f.version())
	if errors.Is(err, fs.ErrNotExist) {
		if err := osutil.ReplaceFile(f.version(), []byte(layout+"\n"), 0o644); err != nil {
			return fmt.Errorf("harpagon: state folder %s: %w", f, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	if have := strings.TrimSpace(string(b)); have != layout {
		return fmt.Errorf("harpagon: state folder %s has version %q, and this program needs %q: it was written by another Harpagon, whose services this one cannot go on with. "+
			"Start on another folder with --state and the same declarations; to keep what was measured, copy the folder %s there first", f, have, layout, f.Profiles())
	}
	return nil
}

// lock holds a lock of the kernel's, which goes with the process however that
// ends; the number in the file is for people.
func (f Folder) lock() (unlock func(), err error) {
	file, err := os.OpenFile(f.lockFile(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(f.lockFile())
		_ = file.Close()
		return nil, fmt.Errorf("harpagon: state folder %s is in use by process %s; stop that with harpagon down, or use another folder with --state", f, strings.TrimSpace(string(pid)))
	}
	_ = file.Truncate(0)
	_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	return func() { _ = file.Close() }, nil
}

// Running reports whether a system has locked the folder.
func (f Folder) Running() bool {
	file, err := os.OpenFile(f.lockFile(), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// Endpoints are the addresses at which a running system answers.
type Endpoints struct {
	PID       int    `json:"pid"`
	Gateway   string `json:"gateway"`        // URL
	GRPC      string `json:"grpc,omitempty"` // HOST:PORT of the gateway over gRPC
	UI        string `json:"ui,omitempty"`
	Temporal  string `json:"temporal"` // HOST:PORT
	Namespace string `json:"namespace"`
}

// ErrNotRunning means that no system runs on a state folder.
var ErrNotRunning = errors.New("harpagon: no system runs on this state folder; start one with harpagon up, or name its folder with --state")

// Endpoints reads the addresses of the system that runs on the folder. The
// error wraps ErrNotRunning when there is none.
func (f Folder) Endpoints() (Endpoints, error) {
	var e Endpoints
	b, err := os.ReadFile(f.endpoints())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !f.Running() {
		return e, fmt.Errorf("%w (looked in %s)", ErrNotRunning, f)
	}
	if err != nil {
		return e, fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("harpagon: %s, which has the addresses of the running system, is damaged; start the system again to rewrite it: %w", f.endpoints(), err)
	}
	return e, nil
}

func (f Folder) publish(e Endpoints) error { return f.write(f.endpoints(), e) }

// write replaces a file as a whole.
func (f Folder) write(path string, content any) error {
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	if err := osutil.ReplaceFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	return nil
}

// remember keeps the devices, so that a start without a declaration offers the
// same again; emulated ones exist nowhere else.
func (f Folder) remember(all []placement.Device) error { return f.write(f.devices(), all) }

// remembered are the devices of the start before, none when there was none.
func (f Folder) remembered() (all []placement.Device, err error) {
	b, err := os.ReadFile(f.devices())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("harpagon: state folder %s: %w", f, err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("harpagon: %s, which lists the devices of the start before, is damaged; name the declaration once more, which writes it again: harpagon up PATH: %w", f.devices(), err)
	}
	return all, nil
}

// probe is how much must find room on the disk of the folder: Temporal writes pages of 4 KiB,
// some at a time.
const probe = 64 << 10

// WriteError returns why nothing can be written to the folder, where the disk is the reason: it is
// full, may only be read, or fails. Without one, or where this process may not write, it is nil.
func (f Folder) WriteError() error {
	file, err := os.CreateTemp(string(f), ".room-*")
	if err == nil {
		_, err = file.Write(make([]byte, probe))
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	for _, of := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG, syscall.EIO} {
		if errors.Is(err, of) {
			return fmt.Errorf("harpagon: nothing can be written to the state folder %s: %w; what serves goes on serving, and everything else goes on as soon as there is room", f, of)
		}
	}
	return nil
}

// Explain adds to an error that the disk of the folder may be its reason.
func (f Folder) Explain(err error) error {
	if why := f.WriteError(); err != nil && why != nil && !errors.Is(err, errors.Unwrap(why)) {
		return fmt.Errorf("%w (%w)", why, err)
	}
	return err
}

// Exists reports whether there is such a folder.
func (f Folder) Exists() bool {
	info, err := os.Stat(string(f))
	return err == nil && info.Mode()&fs.ModeDir != 0
}

// Kept is what has been measured on this machine and is kept in the folder.
func (f Folder) Kept(engines []executors.Engine) activities.Profiles {
	host := &executors.Host{Engines: engines}
	return activities.Profiles{
		Store: activities.ProfileStore{Dir: f.Profiles()}, Machine: roles.Machine(false), EngineFor: host.EngineFor,
	}
}

// Fill gives modules without a profile the points that the folder keeps, on the
// hardware that the document declares and the module may run on. Modules of
// which it keeps nothing stay without.
func (f Folder) Fill(doc *pipelines.Document, engines []executors.Engine) error {
	kept := f.Kept(engines)
	signatures := executors.Signatures(engines...)
	for i := range doc.Pipelines {
		p := &doc.Pipelines[i]
		for k := range p.Modules {
			m := &p.Modules[k]
			if len(m.Profile.Points) > 0 {
				continue
			}
			points, err := find(kept, *p, *m, doc.Hardware, signatures)
			if err != nil {
				return err
			}
			m.Profile.Points = points
		}
	}
	for i := range doc.Pools {
		if p := &doc.Pools[i]; p.Unmeasured() && !p.Learned {
			served := p.Served()
			points, err := find(kept, served, served.Modules[0], doc.Hardware, signatures)
			if err != nil {
				return err
			}
			p.Profile.Points = points
		}
	}
	return nil
}

// find loads what is kept of a module on the hardware that it may run on.
func find(kept activities.Profiles, p pipelines.Pipeline, m pipelines.Module, hardware []pipelines.Hardware, signatures pipelines.SignatureFunc) (points []pipelines.Point, err error) {
	for _, h := range hardware {
		if len(m.Hardware) > 0 && !slices.Contains(m.Hardware, h.Name) {
			continue
		}
		task := executors.NewMeasureTask(p, m.Name, h.Name, "", signatures)
		task.Cores = h.Cores
		found, err := kept.Load(task)
		if err != nil {
			return nil, err
		}
		points = append(points, found...)
	}
	return points, nil
}
