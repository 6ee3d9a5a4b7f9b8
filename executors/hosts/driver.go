package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// Driver makes and ends hosts of one kind. Its methods may be called for several hosts at
// a time, and for one host one after the other.
type Driver interface {
	// Create makes the host. It returns as soon as the host may join the fleet by itself. A
	// host that it could not make stays in List until it is deleted.
	Create(ctx context.Context, name string) error

	// Delete ends the host and forgets it; one that is not there is deleted. A host that it
	// could not end stays in List.
	Delete(ctx context.Context, name string) error

	// List is what was made and is not deleted, sorted by name.
	List() ([]Made, error)
}

// Made is a host as its driver remembers it.
type Made struct {
	Name  string
	Since time.Time // it was begun
	Ended string    // why it lives no more, or never did; empty where it may live
	Going bool      // to delete it has begun
}

// Open makes the driver that a declaration asks for. It remembers below folder. program is
// what Process starts; empty means this one.
func (p *Provisioner) Open(folder, program string) (Driver, error) {
	kept := records{filepath.Join(folder, p.Hardware)}
	if err := os.MkdirAll(kept.folder, 0o700); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	if p.Commands != nil {
		return &commands{records: kept, Commands: *p.Commands}, nil
	}
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
	}
	return &processes{records: kept, flags: p.Process.Flags, program: program, grace: defaultGrace, own: map[string]<-chan struct{}{}}, nil
}

// records are the files of a driver, one a host.
type records struct{ folder string }

// record is one of them.
type record struct {
	Since   time.Time `json:"since"`
	Made    bool      `json:"made"`              // to create it has succeeded
	Failure string    `json:"failure,omitempty"` // of creating it
	Going   bool      `json:"going,omitempty"`   // to delete it has begun
	PID     int       `json:"pid,omitempty"`     // of a process
	Started string    `json:"started,omitempty"` // when that began, so that another of its number is known as such
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
	return of, true, nil
}

func (r records) forget(name string) error {
	if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hosts: %w", err)
	}
	return nil
}

// list reads all; ended says of a host that was made why it lives no more.
func (r records) list(ended func(name string, of record) string) ([]Made, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	var all []Made
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
			m := Made{Name: name, Since: of.Since, Going: of.Going}
			if m.Ended = of.Failure; m.Ended == "" {
				m.Ended = ended(name, of)
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Made) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(wrong...)
}

// lastLine is the last line of a text that says something, as an error's reason.
func lastLine(text []byte) string {
	const most = 300
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return last[:min(len(last), most)]
}
