package experiments

import (
	"fmt"
	"slices"
	"strings"
)

// Assumption is something that decides a number and that a paper leaves open, or that its
// systems do otherwise than ours. Figures check in their environment whether it holds
// (Env.Holds), so that each can be switched on by itself.
type Assumption struct {
	Name    string   // such as "dt-1.5d"
	What    string   // a clause: "full machines of one configuration answer within 1.5 d"
	Source  string   // the paper with its section, the authors' code, or why it is guessed
	Systems string   // the baselines and variants that it concerns
	Figures []string // IDs
	As      []string // the profiles in which it holds; in profile ours none does
	Untried bool     // it cannot be tried here
}

// Describe is the assumption in one sentence.
func (a *Assumption) Describe() string {
	return fmt.Sprintf("%s, for %s: %s. From: %s.", a.Name, a.Systems, a.What, a.Source)
}

// Profiles of assumptions.
const (
	AsPaper   = "paper"   // what the papers' systems did, as far as their text and figures show
	AsAuthors = "authors" // what the authors' programs do, where they are public
	AsOurs    = "ours"    // every system on the terms of this project
)

// Profiles lists the names that Assume takes.
func Profiles() []string { return []string{AsPaper, AsAuthors, AsOurs} }

// Assumptions lists all, by system.
func Assumptions() []Assumption {
	return slices.Concat(planningAssumptions(), dispatchingAssumptions(), poolAssumptions(), groupingAssumptions())
}

// Assume names the assumptions of a profile.
func Assume(profile string) (held []string, err error) {
	if !slices.Contains(Profiles(), profile) {
		return nil, fmt.Errorf("there is no profile %q of assumptions; there is %s", profile, strings.Join(Profiles(), ", "))
	}
	for _, a := range Assumptions() {
		if slices.Contains(a.As, profile) {
			held = append(held, a.Name)
		}
	}
	return held, nil
}

// AssumptionsOf lists those that concern a figure.
func AssumptionsOf(id string) []Assumption {
	return slices.DeleteFunc(Assumptions(), func(a Assumption) bool { return !slices.Contains(a.Figures, id) })
}

// Holds reports whether the figure is made under that assumption.
func (e *Env) Holds(assumption string) bool { return slices.Contains(e.Assumed, assumption) }

// Glossary is a table of the assumptions that concern any of the figures.
func Glossary(figures []Figure) Grid {
	g := Grid{Header: []string{"assumption", "for", "what is assumed", "source", "profiles"}, Prose: 4}
	for _, a := range Assumptions() {
		if !slices.ContainsFunc(figures, func(f Figure) bool { return slices.Contains(a.Figures, f.ID) }) {
			continue
		}
		as := strings.Join(a.As, ", ")
		if a.Untried {
			as = "cannot be tried here"
		}
		g.Rows = append(g.Rows, []string{a.Name, a.Systems, a.What, a.Source, as})
	}
	return g
}
