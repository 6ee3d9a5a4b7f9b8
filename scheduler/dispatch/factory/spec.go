package factory

import (
	"fmt"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// Spec says which policy to make and from what. One of its fields is set. It is plain data and
// survives JSON.
type Spec struct {
	TC       *tc.Options               `json:",omitempty"`
	Shared   *Shared                   `json:",omitempty"`
	Turns    *roundrobin.Options       `json:",omitempty"`
	Matching *matching.Options         `json:",omitempty"`
	Baseline *matching.BaselineOptions `json:",omitempty"`
	Grouped  *grouped.Options          `json:",omitempty"`
}

// Shared is a policy over a shared pool of devices.
type Shared struct {
	Name string // one of shared.Names, with variants or without
	shared.Options
}

// New makes the policy. The error says what is wrong with the options.
func New(s Spec) (dispatch.Policy, error) {
	switch {
	case s.TC != nil:
		return tc.New(*s.TC), nil
	case s.Shared != nil:
		p, err := shared.New(s.Shared.Name, s.Shared.Options)
		if err != nil {
			return nil, fmt.Errorf("dispatch %s: %w", s.Shared.Name, err)
		}
		return p, nil
	case s.Turns != nil:
		return roundrobin.New(*s.Turns), nil
	case s.Matching != nil:
		return matching.New(*s.Matching)
	case s.Baseline != nil:
		if err := s.Baseline.Check(); err != nil {
			return nil, fmt.Errorf("dispatch %s: %w", s.Baseline.Name, err)
		}
		return matching.NewBaseline(*s.Baseline), nil
	case s.Grouped != nil:
		if err := s.Grouped.Check(); err != nil {
			return nil, fmt.Errorf("dispatch grouped: %w", err)
		}
		return grouped.New(*s.Grouped), nil
	}
	return nil, fmt.Errorf("no dispatch policy is given")
}
