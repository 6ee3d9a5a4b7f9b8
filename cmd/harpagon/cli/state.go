package cli

import (
	"context"
	"fmt"
	"slices"
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
	Dir     string
	command *cobra.Command
}

// Register adds --state to a command.
func (s *stateFlag) Register(c *cobra.Command, usage string) {
	s.command = c
	c.Flags().StringVar(&s.Dir, "state", system.DefaultStateDir, usage)
}

// Folder is false where there is none and none was asked for.
func (s *stateFlag) Folder() (system.Folder, bool, error) {
	f := system.Folder(s.Dir)
	switch {
	case f.Exists():
		return f, true, nil
	case s.command != nil && s.command.Flags().Changed("state"):
		return f, false, fmt.Errorf("there is no state folder %s; harpagon up --state %s makes one, or name another", s.Dir, s.Dir)
	}
	return f, false, nil
}

// Kept is what the folder keeps of measurements; without a folder nothing is
// kept.
func (s *stateFlag) Kept(engines []executors.Engine) (activities.Profiles, error) {
	f, ok, err := s.Folder()
	kept := f.Kept(engines)
	if !ok {
		kept.Store = activities.ProfileStore{}
	}
	return kept, err
}

// With runs a command over the system on the folder, whatever the environment
// names.
func (s *stateFlag) With(ctx context.Context, do func(*control.Control) error) error {
	at := &temporalAt{Deps: &Deps{}, State: s.Dir}
	return at.With(ctx, do)
}

// Fill gives modules without a profile what the folder keeps of them.
func (s *stateFlag) Fill(doc *pipelines.Document) error {
	f, ok, err := s.Folder()
	if !ok {
		return err
	}
	return f.Fill(doc, system.Engines(nil, nil, nil))
}

// LookTime bounds how long a command waits for the system on the state folder.
const LookTime = 10 * time.Second

// Fleet is what the system on the folder has to plan with: its devices, and what
// services other than those hold of them. It is false, and the zero Fleet leaves
// devices to what is declared, where no system runs or it does not answer.
func (s *stateFlag) Fleet(ctx context.Context, d *Deps, specs []scheduler.Spec) (fleet scheduler.Fleet, runs bool, err error) {
	folder, ok, err := s.Folder()
	if !ok || !folder.Running() {
		return fleet, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	err = s.With(ctx, func(commands *control.Control) error {
		view, err := commands.Fleet(ctx)
		if err != nil {
			return err
		}
		var own []string
		for _, s := range specs {
			own = append(own, workflows.SpecID(s))
		}
		fleet = view.For(own...)
		fleet.Transfer, err = counted(ctx, commands, own)
		return err
	})
	if err != nil {
		fmt.Fprintf(d.Stderr, "what runs on %s could not be asked: %v\n", s.Dir, err)
		return scheduler.Fleet{}, false, nil
	}
	return fleet, true, nil
}

// counted is what the services of these workflows count on for the way to executors.
func counted(ctx context.Context, commands *control.Control, own []string) (way time.Duration, err error) {
	all, err := commands.Statuses(ctx)
	for _, s := range all {
		if slices.Contains(own, workflows.ServiceID(s.Kind, s.Name)) {
			way = max(way, s.Transfer)
		}
	}
	return way, err
}
