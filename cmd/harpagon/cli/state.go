package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// keptUsage is the help of --state where commands plan.
const keptUsage = "state `folder` with what was measured here, for modules without a profile"

// stateFlag is the state folder of commands that read it where there is one. A
// folder that is named must exist.
type stateFlag struct {
	dir     string
	command *cobra.Command
}

func (s *stateFlag) register(c *cobra.Command, usage string) {
	s.command = c
	c.Flags().StringVar(&s.dir, "state", system.DefaultStateDir, usage)
}

// folder is false where there is none and none was asked for.
func (s *stateFlag) folder() (system.Folder, bool, error) {
	f := system.Folder(s.dir)
	switch {
	case f.Exists():
		return f, true, nil
	case s.command.Flags().Changed("state"):
		return f, false, fmt.Errorf("there is no state folder %s; harpagon up --state %s makes one, or name another", s.dir, s.dir)
	}
	return f, false, nil
}

// kept is what the folder keeps of measurements; without a folder nothing is
// kept.
func (s *stateFlag) kept(engines []executors.Engine) (activities.Profiles, error) {
	f, ok, err := s.folder()
	kept := f.Kept(engines)
	if !ok {
		kept.Store = activities.ProfileStore{}
	}
	return kept, err
}

// with runs a command over the system on the folder, whatever the environment
// names.
func (s *stateFlag) with(ctx context.Context, do func(*control.Control) error) error {
	at := &temporalAt{deps: &Deps{}, state: s.dir}
	return at.with(ctx, do)
}

// fill gives modules without a profile what the folder keeps of them.
func (s *stateFlag) fill(doc *pipelines.Document) error {
	f, ok, err := s.folder()
	if !ok {
		return err
	}
	return f.Fill(doc, system.Engines(nil, nil, nil))
}

// lookTime bounds how long a command waits for the system on the state folder.
const lookTime = 10 * time.Second

// fleet is what the system on the folder has to plan with: its devices, and what
// services other than those hold of them. It is false, and the zero Fleet leaves
// devices to what is declared, where no system runs or it does not answer.
func (s *stateFlag) fleet(ctx context.Context, d *Deps, specs []scheduler.Spec) (fleet scheduler.Fleet, runs bool, err error) {
	folder, ok, err := s.folder()
	if !ok || !folder.Running() {
		return fleet, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = s.with(ctx, func(commands *control.Control) error {
		view, err := commands.Fleet(ctx)
		if err != nil {
			return err
		}
		var own []string
		for _, s := range specs {
			own = append(own, workflows.SpecID(s))
		}
		fleet = view.For(own...)
		return nil
	})
	if err != nil {
		fmt.Fprintf(d.Stderr, "what runs on %s could not be asked: %v\n", s.dir, err)
		return scheduler.Fleet{}, false, nil
	}
	return fleet, true, nil
}
