package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler"
)

// declarationsKept bounds the declarations that are remembered beside the one that serves and those
// still to be carried out.
const declarationsKept = 5

// Declaration is a spec as somebody has asked for it: applied, rescaled or gone back to.
// Generations in between, which follow what is measured, have none of their own.
type Declaration struct {
	Generation int // its first
	At         time.Time
	Reason     string
	Served     bool
	Spec       scheduler.Spec
}

// Declarations holds declarations, oldest first.
type Declarations []Declaration

// By is the generation of the declaration that a generation carries out; 0 where it is
// not known.
func (l Declarations) By(generation int) int {
	for _, d := range slices.Backward(l) {
		if d.Generation <= generation {
			return d.Generation
		}
	}
	return 0
}

// Carried is the list once a generation serves: without declarations that were replaced
// before they served, and without the oldest of those that did.
func (l Declarations) Carried(generation int) Declarations {
	by := l.By(generation)
	l = slices.DeleteFunc(l, func(d Declaration) bool { return !d.Served && d.Generation < by })
	past := 0
	for i := range l {
		if d := &l[i]; d.Generation <= generation {
			d.Served = true
			past++
		}
	}
	return slices.Delete(l, 0, max(0, past-declarationsKept-1))
}

// Earlier finds the declaration to go back to: that of a generation, or with 0 the one
// that served before the one in force. While another one than that which serves is in
// force, because it is under way or could not be carried out, it is that which serves.
func (l Declarations) Earlier(to, serving, inForce int) (Declaration, error) {
	serves, asked := l.By(serving), l.By(inForce)
	if asked != serves && to == 0 {
		to = serves
	}
	var kept []string
	for _, d := range slices.Backward(l) {
		switch {
		case !d.Served || d.Generation == asked:
		case to == 0 && d.Generation < serves, to == d.Generation:
			return d, nil
		default:
			kept = append(kept, fmt.Sprint(d.Generation))
		}
	}
	switch {
	case len(kept) == 0:
		return Declaration{}, errors.New("has served no other declaration that it could go back to")
	case to == asked && to != 0:
		return Declaration{}, fmt.Errorf("has the declaration of generation %d already; those before it that are kept: %s", to, strings.Join(kept, ", "))
	}
	return Declaration{}, fmt.Errorf("keeps no declaration of generation %d; it keeps those of %s", to, strings.Join(kept, ", "))
}

// DeclarationSummary tells of a Declaration without its spec.
type DeclarationSummary struct {
	Generation int
	At         time.Time
	Reason     string
	Current    bool // it serves
}

// Summaries tells of those that have served.
func (l Declarations) Summaries(serving int) (all []DeclarationSummary) {
	current := l.By(serving)
	for _, d := range l {
		if d.Served {
			all = append(all, DeclarationSummary{d.Generation, d.At, d.Reason, d.Generation == current})
		}
	}
	return all
}
