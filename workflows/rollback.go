package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/scheduler"
)

// keepDeclarations bounds the declarations that a service remembers beside the one that
// serves and those still to be carried out.
const keepDeclarations = 5

// RollbackRequest goes back to a declaration that served before.
type RollbackRequest struct {
	To     int // its generation; 0 for the one that served before the one that is in force
	Expect int // as in ApplyRequest
	Reason string
}

// Declaration is a spec as somebody has asked for it: applied, rescaled or gone back to.
// Generations in between, which follow what is measured, have none of their own.
type Declaration struct {
	Generation int // its first
	At         time.Time
	Reason     string
	Served     bool
	Spec       scheduler.Spec
}

// Declared tells of a Declaration without its spec.
type Declared struct {
	Generation int
	At         time.Time
	Reason     string
	Current    bool // it serves; rollback goes to the others
}

// declare remembers what somebody has asked for; replan has made its generation.
func (s *service) declare(ctx workflow.Context) {
	if len(s.Declarations) == 0 && s.Serving != nil { // of a service older than declarations
		s.Declarations = append(s.Declarations, Declaration{Generation: s.Serving.Generation, Reason: s.carriedOut(), Served: true, Spec: s.Serving.Spec})
	}
	s.Declarations = append(s.Declarations, Declaration{
		Generation: s.Generation, At: workflow.Now(ctx), Reason: s.Cause, Spec: s.Spec,
	})
}

// carried notes that a generation serves. Declarations that were replaced before they
// served are forgotten, and the oldest of those that did.
func (s *service) carried(generation int) {
	s.Declarations = slices.DeleteFunc(s.Declarations, func(d Declaration) bool {
		return !d.Served && d.Generation < s.declaredBy(generation)
	})
	past := 0
	for i := range s.Declarations {
		if d := &s.Declarations[i]; d.Generation <= generation {
			d.Served = true
			past++
		}
	}
	s.Declarations = slices.Delete(s.Declarations, 0, max(0, past-keepDeclarations-1))
}

// declaredBy is the generation of the declaration that a generation carries out; 0 where
// it is not known.
func (s *service) declaredBy(generation int) int {
	for _, d := range slices.Backward(s.Declarations) {
		if d.Generation <= generation {
			return d.Generation
		}
	}
	return 0
}

// current is the generation of the declaration that serves; 0 when nothing does.
func (s *service) current() int {
	if s.Serving == nil {
		return 0
	}
	return s.declaredBy(s.Serving.Generation)
}

// earlier finds the declaration to go back to. While another one than that which serves
// is asked for, because it is under way or could not be carried out, that which serves
// is one to go back to.
func (s *service) earlier(to int) (Declaration, error) {
	current := s.current()
	asked := s.declaredBy(s.Generation)
	if asked != current && to == 0 {
		to = current
	}
	var kept []string
	for _, d := range slices.Backward(s.Declarations) {
		switch {
		case !d.Served || d.Generation == asked:
		case to == 0 && d.Generation < current, to == d.Generation:
			return d, nil
		default:
			kept = append(kept, fmt.Sprint(d.Generation))
		}
	}
	switch {
	case len(kept) == 0:
		return Declaration{}, s.errorf("has served no other declaration that it could go back to")
	case to == asked && to != 0:
		return Declaration{}, s.errorf("has the declaration of generation %d already; those before it that are kept: %s", to, strings.Join(kept, ", "))
	}
	return Declaration{}, s.errorf("keeps no declaration of generation %d; it keeps those of %s", to, strings.Join(kept, ", "))
}

func (s *service) checkRollback(_ workflow.Context, r RollbackRequest) error {
	if err := s.accepts(r.Expect); err != nil {
		return err
	}
	_, err := s.earlier(r.To)
	return err
}

func (s *service) rollback(ctx workflow.Context, r RollbackRequest) (ChangeReply, error) {
	s.Handled++
	to, err := s.earlier(r.To)
	if err != nil {
		return ChangeReply{}, err // it was let through before another update
	}
	s.forgetPoints(to.Spec)
	s.Spec, s.Beside, s.Profile, s.Stop = to.Spec, nil, true, ""
	s.replan(cmp.Or(r.Reason, fmt.Sprintf("rolled back to generation %d", to.Generation)))
	s.declare(ctx)
	return ChangeReply{Generation: s.Generation}, nil
}

// declared tells of what is kept, oldest first.
func (s *service) declared() (all []Declared) {
	current := s.current()
	for _, d := range s.Declarations {
		if d.Served {
			all = append(all, Declared{d.Generation, d.At, d.Reason, d.Generation == current})
		}
	}
	return all
}
