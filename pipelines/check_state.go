package pipelines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// states checks the modules that keep state between the frames of a stream.
func (v *validator) states(p *Pipeline, path string) {
	scopes := v.g.Scopes()
	for i := range p.Modules {
		m := &p.Modules[i]
		if !m.State {
			continue
		}
		at := path + ".module." + m.Name + ".state"
		engine, known := EngineNamed(m.EngineName())
		least := m.Profile.least()
		switch {
		case len(p.StreamKinds()) == 0:
			v.errorf(at, "State without streams", "State is kept between the frames of a stream, and pipeline %q has no stream block: add one, or take state out.", p.Name)
		case m.Function != "":
			v.errorf(at, "State of a function", "A function keeps no state; write a program with a Session in its place: command = [\"python3\", \"./%s.py\"].", m.Name)
		case known && !engine.State:
			v.errorf(at, "State without an engine for it", "The engine %q keeps no state between frames; %s do.", engine.Name, statefulEngines())
		case m.Scatter || len(CommonScopeOf(m, scopes)) > 0:
			v.errorf(at, "State of a part of a frame", "A module with state runs once for each frame of a stream, and %q runs once for each item of one: have it gather all of a frame, gather = true, and take fanout and conditions out.", m.Name)
		case m.fedTwice() != "":
			v.errorf(at, "Fed twice", "%s", m.fedTwice())
		case len(m.Variants) > 0:
			v.errorf(at, "State of variants", "The state of one network is nothing to another, so that a module with state has no variants.")
		case v.doc.ClusterOf(p.Name) != "":
			v.errorf(at, "State in a cluster", "A cluster proves no latency of single modules, which state needs; take pipeline %q out of cluster %q.", p.Name, v.doc.ClusterOf(p.Name))
		case least > 0 && least >= p.StreamsApart():
			v.errorf(at, "State that comes too late", "A frame has to be answered by %q before the next of its stream may come, within %s (1/rate less the jitter), and its fastest configuration takes %s: lower rate or jitter, or profile faster hardware.",
				m.Name, quantity.Duration(p.StreamsApart()), quantity.Duration(least))
		}
	}
}

// least is the shortest duration of a batch; 0 where none was measured.
func (p Profile) least() (d time.Duration) {
	for i, at := range p.Points {
		if i == 0 || at.Duration < d {
			d = at.Duration
		}
	}
	return d
}

// statefulEngines names those that keep state.
func statefulEngines() string {
	var names []string
	for _, e := range Engines() {
		if e.State {
			names = append(names, e.Name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// fedTwice reports which input state and inputs both feed, or which output feeds two; empty for none.
func (m *Module) fedTwice() string {
	by := map[string]string{}
	for _, input := range slices.Sorted(maps.Keys(m.Loops)) {
		output := m.Loops[input]
		if slices.ContainsFunc(m.Inputs, func(b Binding) bool { return b.Name == input }) {
			return fmt.Sprintf("The input %q is state and stands in inputs, too: take it out of one.", input)
		}
		if by[output] != "" {
			return fmt.Sprintf("The output %q goes back to both %q and %q; one output is the state of one input.", output, by[output], input)
		}
		by[output] = input
	}
	return ""
}

// UnknownLoop reports which pair of Loops a network, whose loops by them the signature has, does not
// have; empty for none.
func (m *Module) UnknownLoop(sig Signature) string {
	for _, input := range slices.Sorted(maps.Keys(m.Loops)) {
		if !slices.ContainsFunc(sig.Inputs, func(p Port) bool { return p.Name == input && p.Loop == m.Loops[input] }) {
			return fmt.Sprintf("it has no input %q with an output %q of the same datatype; it has the inputs %s and the outputs %s",
				input, m.Loops[input], Quoted(portNames(sig.Inputs)), Quoted(portNames(sig.Outputs)))
		}
	}
	return ""
}

// loops checks that the state of a module goes round, as far as its signature is known.
func (v *validator) loops(m *Module, sig Signature, at string) {
	if why := m.UnknownLoop(sig); why != "" {
		v.errorf(at, "No state found", "%s: %s.", what(m), why)
		return
	}
	if m.State && !slices.ContainsFunc(sig.Inputs, func(p Port) bool { return p.Loop != "" }) {
		v.errorf(at, "No state found", "%s has no input that one of its outputs is fed back to: it has the inputs %s and the outputs %s, and state is recognised by their names, such as state and stateN, h and hn, X and X_out, X_in and X_out, or past.X and present.X, where nothing else feeds the input. Others are paired by state = { INPUT = \"OUTPUT\" }.",
			what(m), Quoted(portNames(sig.Inputs)), Quoted(portNames(sig.Outputs)))
	}
}
