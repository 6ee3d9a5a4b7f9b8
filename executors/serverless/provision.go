package serverless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// State of a function at its provider.
type State string

// The states.
const (
	Ready   State = "ready"
	Pending State = "pending"
	Failed  State = "failed"
)

// Described is what a provider says of one function.
type Described struct {
	functions.Managed
	State  State
	Reason string // when it has failed
}

// Provisioner is how a provider is told which functions there shall be. Every call may
// be repeated. An error that wraps ErrRefused will be the same next time.
type Provisioner interface {
	Create(ctx context.Context, m functions.Managed) error
	Resize(ctx context.Context, m functions.Managed) error
	Delete(ctx context.Context, name string) error
	// Describe lists what there is of a function, of all sizes.
	Describe(ctx context.Context, function string) ([]Described, error)
}

// ErrRefused says that the provider will not do what it was asked.
var ErrRefused = errors.New("provision: the provider refuses")

// pollEvery is how often a provider is asked whether what it began is ready.
const pollEvery = 500 * time.Millisecond

// Ensure brings the provider to what is wanted of one function, and waits until all of
// it is ready. It says what it did, also when it failed on the way.
func Ensure(ctx context.Context, p Provisioner, function string, want []functions.Managed) (functions.Managing, error) {
	var todo functions.Managing
	has, err := p.Describe(ctx, function)
	if err != nil {
		return todo, fmt.Errorf("provision: the provider does not say what there is of function %q: %w", function, err)
	}
	var sound []functions.Managed
	for _, d := range has {
		if d.State != Failed {
			sound = append(sound, d.Managed)
			continue
		}
		if err := p.Delete(ctx, d.Name); err != nil { // and make it anew, where it is wanted
			return todo, fmt.Errorf("provision: delete %s, which failed: %w", d.Name, err)
		}
	}
	todo = functions.Manage(want, sound)
	for _, m := range todo.Create {
		if err := p.Create(ctx, m); err != nil {
			return todo, fmt.Errorf("provision: create %s: %w", m.Name, err)
		}
	}
	for _, m := range todo.Resize {
		if err := p.Resize(ctx, m); err != nil {
			return todo, fmt.Errorf("provision: resize %s: %w", m.Name, err)
		}
	}
	for _, m := range todo.Delete {
		if err := p.Delete(ctx, m.Name); err != nil {
			return todo, fmt.Errorf("provision: delete %s: %w", m.Name, err)
		}
	}
	if len(todo.Create)+len(todo.Resize) == 0 {
		return todo, nil
	}
	return todo, ready(ctx, p, function, want)
}

// ready waits until everything that is wanted is ready.
func ready(ctx context.Context, p Provisioner, function string, want []functions.Managed) error {
	for {
		has, err := p.Describe(ctx, function)
		if err != nil {
			return fmt.Errorf("provision: wait for function %q: %w", function, err)
		}
		state := map[string]Described{}
		for _, d := range has {
			state[d.Name] = d
		}
		waits := ""
		for _, m := range want {
			switch d, ok := state[m.Name]; {
			case ok && d.State == Failed:
				return fmt.Errorf("%w: %s has failed: %s", ErrRefused, m.Name, cmp.Or(d.Reason, "it does not say why"))
			case !ok || d.State == Pending:
				waits = m.Name
			}
		}
		if waits == "" {
			return nil
		}
		if osutil.SleepTimer(ctx, pollEvery) != nil {
			return fmt.Errorf("provision: %s is not ready in time", waits)
		}
	}
}
