package pipelines

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CycleError says that the modules of a pipeline wait for each other.
type CycleError struct {
	Path []string // modules in the order that data flows; first and last are the same
}

// Error draws the cycle.
func (e *CycleError) Error() string {
	return "pipelines: modules form a cycle: " + strings.Join(e.Path, " -> ")
}

// Module returns the module of that name, or nil. The pointer is into p.
func (p *Pipeline) Module(name string) *Module {
	for i := range p.Modules {
		if p.Modules[i].Name == name {
			return &p.Modules[i]
		}
	}
	return nil
}

// Input returns the pipeline's input of that name, or nil.
func (p *Pipeline) Input(name string) *Port {
	for i := range p.Inputs {
		if p.Inputs[i].Name == name {
			return &p.Inputs[i]
		}
	}
	return nil
}

// Upstream lists the modules that feed the module directly, each once, in the
// order of its inputs. Names that are not declared are left out.
func (p *Pipeline) Upstream(name string) []string {
	m := p.Module(name)
	if m == nil {
		return nil
	}
	var up []string
	for _, in := range m.Inputs {
		from := in.From.Module
		if from != "" && p.Module(from) != nil && !slices.Contains(up, from) {
			up = append(up, from)
		}
	}
	return up
}

// Downstream lists the modules that the module feeds directly, in order of
// declaration.
func (p *Pipeline) Downstream(name string) []string {
	var down []string
	for _, m := range p.Modules {
		feeds := func(in Binding) bool { return in.From.Module == name }
		if name != "" && slices.ContainsFunc(m.Inputs, feeds) {
			down = append(down, m.Name)
		}
	}
	return down
}

// Order lists the modules so that each stands after all that feed it; where
// several could come next, the one declared first does. The error is a
// *CycleError.
func (p *Pipeline) Order() ([]string, error) {
	placed := make(map[string]bool, len(p.Modules))
	order := make([]string, 0, len(p.Modules))
	ready := func(m Module) bool {
		waits := func(up string) bool { return !placed[up] }
		return !placed[m.Name] && !slices.ContainsFunc(p.Upstream(m.Name), waits)
	}
	for {
		next := slices.IndexFunc(p.Modules, ready)
		if next < 0 {
			break
		}
		placed[p.Modules[next].Name] = true
		order = append(order, p.Modules[next].Name)
	}
	for _, m := range p.Modules {
		if !placed[m.Name] {
			return nil, p.cycleFrom(m.Name, placed)
		}
	}
	return order, nil
}

// cycleFrom walks upstream from a module that could not be placed. Each such
// module has one above it that could not be placed either, so the walk comes
// round.
func (p *Pipeline) cycleFrom(name string, placed map[string]bool) *CycleError {
	var walk []string
	for !slices.Contains(walk, name) {
		walk = append(walk, name)
		up := p.Upstream(name)
		name = up[slices.IndexFunc(up, func(u string) bool { return !placed[u] })]
	}
	cycle := append(walk[slices.Index(walk, name):], name)
	slices.Reverse(cycle)
	return &CycleError{Path: cycle}
}

// Rates gives every module's request rate: its fanout times the highest rate
// among the modules that feed it, or the pipeline's rate where none does; a
// module's own Rate overrides that. It is nil when the modules form a cycle.
func (p *Pipeline) Rates() map[string]float64 {
	order, err := p.Order()
	if err != nil {
		return nil
	}
	rates := make(map[string]float64, len(order))
	for _, name := range order {
		m := p.Module(name)
		if m.Rate > 0 {
			rates[name] = m.Rate
			continue
		}
		base := p.Rate
		for i, up := range p.Upstream(name) {
			if i == 0 || rates[up] > base {
				base = rates[up]
			}
		}
		rates[name] = base * m.fanout()
	}
	return rates
}

// fanout reads a module that was filled in by hand and left the field zero.
func (m *Module) fanout() float64 {
	if !m.Scatter && m.Fanout == 0 {
		return 1
	}
	return m.Fanout
}

// Scope is the chain of scattering modules whose items the module sees, the
// outermost first and the module itself last where it scatters. A module with
// an empty scope runs once per request of the pipeline. It is nil as well when
// the modules form a cycle.
func (p *Pipeline) Scope(name string) []string {
	return p.scopes()[name]
}

// ScopeOf is the scope of the tensor that ref points at: that of the module
// which makes it, and empty for an input of the pipeline.
func (p *Pipeline) ScopeOf(ref Ref) []string {
	return p.Scope(ref.Module)
}

// CommonScope is the deepest scope that holds all inputs of the module. An
// input from a deeper one arrives gathered along one new axis; a module that
// scatters splits the items of its common scope.
func (p *Pipeline) CommonScope(name string) []string {
	if m := p.Module(name); m != nil {
		return commonScope(m, p.scopes())
	}
	return nil
}

func (p *Pipeline) scopes() map[string][]string {
	order, err := p.Order()
	if err != nil {
		return nil
	}
	scopes := make(map[string][]string, len(order))
	for _, name := range order {
		m := p.Module(name)
		scope := commonScope(m, scopes)
		if m.Scatter {
			scope = append(slices.Clone(scope), name)
		}
		scopes[name] = scope
	}
	return scopes
}

// commonScope is the longest prefix that the scopes of all inputs share.
func commonScope(m *Module, scopes map[string][]string) []string {
	var common []string
	first := true
	for _, in := range m.Inputs {
		if in.IsConstant() {
			continue
		}
		scope := scopes[in.From.Module]
		if first {
			common, first = scope, false
			continue
		}
		n := 0
		for n < len(common) && n < len(scope) && common[n] == scope[n] {
			n++
		}
		common = common[:n]
	}
	return common
}

// LongestPath finds the path of modules with the greatest sum of weights, and
// that sum. Of several, it is the one that ends, then starts, with what was
// declared first. The error is a *CycleError.
func (p *Pipeline) LongestPath(weight func(module string) time.Duration) ([]string, time.Duration, error) {
	order, err := p.Order()
	if err != nil {
		return nil, 0, err
	}
	total := make(map[string]time.Duration, len(order))
	before := make(map[string]string, len(order))
	last := ""
	for _, name := range order {
		for _, up := range p.Upstream(name) {
			if best := before[name]; best == "" || total[up] > total[best] {
				before[name] = up
			}
		}
		total[name] = weight(name) + total[before[name]]
		if last == "" || total[name] > total[last] {
			last = name
		}
	}
	var path []string
	for name := last; name != ""; name = before[name] {
		path = append(path, name)
	}
	slices.Reverse(path)
	return path, total[last], nil
}

// String writes a reference as HCL does.
func (r Ref) String() string {
	if r.Module == "" {
		return "input." + r.Port
	}
	return fmt.Sprintf("module.%s.%s", r.Module, r.Port)
}
