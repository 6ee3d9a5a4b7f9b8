package cli

import (
	"fmt"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// stations are the recorders of all that a simulation plays.
type stations struct {
	wanted bool
	all    []station
}

type station struct {
	name string
	*recording.Recorder
}

// of makes the recorders of a service, whose only station is called after it; one
// without a name has stations with names of their own. It is nil where nothing is
// recorded.
func (s *stations) of(service string) func(name string) *recording.Recorder {
	if !s.wanted {
		return nil
	}
	return func(name string) *recording.Recorder {
		if service != "" {
			name = service
		}
		r := &recording.Recorder{}
		s.all = append(s.all, station{name, r})
		return r
	}
}

// write writes what was recorded to the file.
func (s *stations) write(d *Deps, path string) error {
	if !s.wanted {
		return nil
	}
	made := recording.Recording{Head: recording.Head{Program: "harpagon " + d.Version + " simulate"}}
	for _, one := range s.all {
		made.Stations = append(made.Stations, recording.Station{Name: one.name, Parts: one.Parts()})
	}
	text, err := made.Append(nil)
	if err == nil {
		err = osutil.ReplaceFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("the recording was not written: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	return nil
}
