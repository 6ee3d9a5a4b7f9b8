package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// Open makes the driver. It remembers below folder.
func (p *Provisioner) Open(folder string) (Driver, error) {
	folder = filepath.Join(folder, p.Hardware)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return &commands{records: records{folder}, Commands: p.Commands}, nil
}

// commands is the driver.
type commands struct {
	records
	Commands
}

// Create runs the command. What is half made, because it failed or because this process
// was killed meanwhile, is for Delete.
func (c *commands) Create(ctx context.Context, name string) error {
	made := record{Since: time.Now()}
	if err := c.write(name, made); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Create, name); err != nil {
		made.Failure = err.Error()
		_ = c.write(name, made) // it is reported now; without the file it would be lost later
		return err
	}
	made.Made = true
	return c.write(name, made)
}

// Delete runs the command and forgets the host when that has succeeded.
func (c *commands) Delete(ctx context.Context, name string) error {
	of, known, err := c.read(name)
	if err != nil || !known {
		return err
	}
	of.Going = true
	if err := c.write(name, of); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Delete, name); err != nil {
		return err
	}
	return c.forget(name)
}

// outputKept is how much of what a command writes is looked at for its reason.
const outputKept = 64 << 10

// run runs a command for a host, in a process group of its own that ends with it, or
// when its time is over, or on Linux when this process is killed.
func (c *commands) run(ctx context.Context, command []string, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	runtime.LockOSThread() // on Linux the command ends with the thread that started it
	defer runtime.UnlockOSThread()
	var said tail
	cmd := exec.CommandContext(ctx, command[0], append(append([]string(nil), command[1:]...), name)...)
	cmd.SysProcAttr = boundGroup()
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for processes that have left the group and hold its output
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command has left behind
	}
	switch why := lastLine(said.kept); {
	case err == nil:
		return nil
	case ctx.Err() != nil && context.Cause(ctx) == context.DeadlineExceeded:
		return fmt.Errorf("%s was ended after %v, its limit%s", strings.Join(command, " "), c.Limit, quoted(why))
	default:
		return fmt.Errorf("%s: %w%s", strings.Join(command, " "), err, quoted(why))
	}
}

func quoted(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = slices.Delete(t.kept, 0, max(0, len(t.kept)-outputKept))
	return len(p), nil
}

// lastLine is the last line of a text that is not blank, as an error's reason.
func lastLine(text []byte) string {
	const most = 300
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return last[:min(len(last), most)]
}

// records are the files of a driver, one a host.
type records struct{ folder string }

// record is one of them.
type record struct {
	Since   time.Time `json:"since"`
	Made    bool      `json:"made"`              // to create it has succeeded
	Failure string    `json:"failure,omitempty"` // of creating it
	Going   bool      `json:"going,omitempty"`   // to delete it has begun
	PID     int       `json:"pid,omitempty"`     // of a process that an older harpagon has started
}

const ending = ".json"

func (r records) path(name string) string { return filepath.Join(r.folder, name+ending) }

func (r records) write(name string, to record) error {
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := osutil.ReplaceFile(r.path(name), text, 0o600); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	return nil
}

// read is what is remembered of a host; false for nothing.
func (r records) read(name string) (of record, known bool, err error) {
	text, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return of, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return of, true, fmt.Errorf("hosts: %s cannot be read: %w; end that host and remove the file", r.path(name), err)
	}
	if of.PID > 0 {
		return of, true, fmt.Errorf("hosts: an older harpagon has started %s as process %d, which no command ends: end it and remove %s", name, of.PID, r.path(name))
	}
	return of, true, nil
}

func (r records) forget(name string) error {
	if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hosts: %w", err)
	}
	return nil
}

// List reads all. Of a host whose command has neither succeeded nor failed it reports that it was
// not finished; while it runs, the caller of Create has the true state.
func (r records) List() ([]HostRecord, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	var all []HostRecord
	var wrong []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ending)
		if !ok {
			continue
		}
		of, known, err := r.read(name)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case known:
			m := HostRecord{Name: name, Since: of.Since, Going: of.Going}
			if m.Ended = of.Failure; m.Ended == "" && !of.Made {
				m.Ended = "the command that creates it was not finished"
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b HostRecord) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(wrong...)
}
