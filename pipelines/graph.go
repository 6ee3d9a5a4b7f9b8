package pipelines

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// CycleError means that the modules of a pipeline wait for each other.
type CycleError struct {
	Path []string // modules in the order that data flows; first and last are the same
}

// Error draws the cycle.
func (e *CycleError) Error() string {
	return "pipelines: modules form a cycle: " + DrawPath(e.Path)
}

// drawnModules is how many modules a path shows before it leaves some out.
const drawnModules = 20

// DrawPath writes a path of modules; of a long one, both ends.
func DrawPath(path []string) string {
	if n := len(path); n > drawnModules {
		left := fmt.Sprintf("(%d more)", n-drawnModules)
		path = slices.Concat(path[:drawnModules/2], []string{left}, path[n-drawnModules/2:])
	}
	return strings.Join(path, " -> ")
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
	for _, r := range m.Reads() {
		from := r.Module
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
		feeds := func(r Ref) bool { return r.Module == name }
		if name != "" && slices.ContainsFunc(m.Reads(), feeds) {
			down = append(down, m.Name)
		}
	}
	return down
}

// Order lists the modules so that each stands after all that feed it; where
// several could come next, the one declared first does. The error is a
// *CycleError.
func (p *Pipeline) Order() ([]string, error) {
	g := p.Resolve()
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(order))
	for i, at := range order {
		names[i] = g.Names[at]
	}
	return names, nil
}

// LeastRate is the least rate that is planned for where there is any, in requests per
// second: one request in 32 years, so that times between requests are durations.
const LeastRate = 1e-9

// Rates gives every module's request rate: its fanout times the highest rate among the
// modules that feed it, or the pipeline's rate where none does; where all of these come from
// deeper scopes and are gathered, that of the items it gathers to. A module's own Rate
// overrides that. A rate above zero counts as LeastRate at least. It is nil when the modules
// form a cycle.
func (p *Pipeline) Rates() map[string]float64 {
	g := p.Resolve()
	order, err := g.Order()
	if err != nil {
		return nil
	}
	rates, scopes := make(map[string]float64, len(order)), g.Scopes()
	for _, at := range order {
		m := &p.Modules[at]
		rate := m.Rate
		if !(rate > 0) {
			base := p.Rate
			for i, name := range m.follows(scopes) {
				if above := rates[name]; i == 0 || above > base {
					base = above
				}
			}
			rate = base * m.fanout()
		}
		if rate > 0 {
			rate = max(rate, LeastRate)
		}
		rates[m.Name] = rate
	}
	return rates
}

// Follows lists the modules whose requests those to the module come of, one by one or split:
// the highest of their rates is its own before its fan-out. There are none where it gets
// those of the pipeline.
func (p *Pipeline) Follows(name string) []string {
	if m := p.Module(name); m != nil {
		return m.follows(p.scopes())
	}
	return nil
}

func (m *Module) follows(scopes map[string][]string) (names []string) {
	if _, ok := scopes[m.Gather]; ok {
		return []string{m.Gather}
	}
	common := CommonScopeOf(m, scopes)
	for _, r := range m.Reads() {
		from := r.Module
		if scope, ok := scopes[from]; ok && len(scope) == len(common) && !slices.Contains(names, from) {
			names = append(names, from)
		}
	}
	if len(names) == 0 && len(common) > 0 {
		return common[len(common)-1:]
	}
	return names
}

// fanout reads a module that was filled in by hand and left the field zero.
func (m *Module) fanout() float64 {
	if !m.Scatter && m.Fanout == 0 {
		return 1
	}
	return m.Fanout
}

// MaxItems bounds the items of one fan-out: more is a mistake of the module above, and
// would fill every queue.
const MaxItems = 1 << 16

// MostItems is how many requests to the module follow from one above it at most: as
// declared, or its fan-out where that is a whole number, which is always that many unless
// something else was measured. It is 0 where there is no bound.
func (m *Module) MostItems() int {
	if m.Most > 0 {
		return m.Most
	}
	if k := m.fanout(); k == math.Trunc(k) && k <= MaxItems && len(m.Items) == 0 {
		return int(k)
	}
	return 0
}

// maxBurst is from where on the items of a request count as without bound.
const maxBurst = 1 << 30

// Bursts gives for every module how many items of one request come to it at most: the
// product of the fan-outs around it, 0 where there is no bound. It is nil when the modules
// form a cycle.
func (p *Pipeline) Bursts() map[string]int {
	g := p.Resolve()
	bursts := make(map[string]int, len(p.Modules))
	scopes := g.Scopes()
	if scopes == nil {
		return nil
	}
	for i := range p.Modules {
		name := p.Modules[i].Name
		scope := scopes[name]
		if m := &p.Modules[i]; !m.Scatter {
			scope = append(slices.Clone(scope), name) // a fan-out that was filled in by hand
		}
		most := 1
		for _, splits := range scope {
			if most *= g.Module(splits).MostItems(); most > maxBurst {
				most = 0
			}
		}
		bursts[name] = most
	}
	return bursts
}

// Condition is one of those under which a module runs: When or, with Else, its opposite.
type Condition struct {
	When Ref
	Else bool
}

// Conditions gives for every module those that decide for a request whether it comes there: the
// module's own, and those of what is above. Conditions within a fan-out, which differ from item
// to item, are left out.
func (p *Pipeline) Conditions() map[string][]Condition {
	all, g := map[string][]Condition{}, p.Resolve()
	for name, scope := range g.Scopes() {
		for _, splits := range scope {
			m := g.Module(splits)
			if !m.IsConditional() {
				break
			}
			all[name] = append(all[name], Condition{m.When, m.Else})
		}
	}
	return all
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

// CommonScope is the scope in whose items the module runs: the deepest that holds all its
// inputs, or the one to which it gathers. An input from a deeper one arrives gathered along one
// new axis; a module that scatters splits the items of its common scope.
func (p *Pipeline) CommonScope(name string) []string {
	if m := p.Module(name); m != nil {
		return CommonScopeOf(m, p.scopes())
	}
	return nil
}

func (p *Pipeline) scopes() map[string][]string { return p.Resolve().Scopes() }

// CommonScopeOf is what Pipeline.CommonScope is, of the scopes of the modules above.
func CommonScopeOf(m *Module, scopes map[string][]string) []string {
	common, deepest := sharedScope(m, scopes)
	switch {
	case m.Gather == GatherAround && deepest == len(common) && deepest > 0:
		return common[:deepest-1]
	case m.Gather != "" && m.Gather != GatherAround:
		return common[:sharedBy(common, scopes[m.Gather])]
	}
	return common
}

// Gathers reports whether what feeds an input of the module comes from a deeper scope than the
// one in which the module runs, or than the branch of it that ran.
func (m *Module) Gathers(b Binding, from Ref, scopes map[string][]string) bool {
	depth := len(CommonScopeOf(m, scopes))
	if b.IsMerge() {
		depth++
	}
	return !b.IsConstant() && len(scopes[from.Module]) > depth
}

// sharedScope is the longest prefix that the scopes of all inputs share, and the length of the
// deepest of them. A condition is one of them.
func sharedScope(m *Module, scopes map[string][]string) (common []string, deepest int) {
	first := true
	for _, r := range m.Reads() {
		scope := scopes[r.Module]
		if deepest = max(deepest, len(scope)); first {
			common, first = scope, false
		}
		common = common[:sharedBy(common, scope)]
	}
	return common, deepest
}

// sharedBy is how long the prefix is that two scopes share.
func sharedBy(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Depth is the number of modules on the path that has most; 0 where the graph is none.
func (p *Pipeline) Depth() int {
	_, modules, err := p.LongestPath(func(string) time.Duration { return 1 })
	if err != nil {
		return 0
	}
	return int(modules)
}

// LongestPath finds the path of modules with the greatest sum of weights, and
// that sum. Of several, it is the one that ends, then starts, with what was
// declared first. The error is a *CycleError.
func (p *Pipeline) LongestPath(weight func(module string) time.Duration) ([]string, time.Duration, error) {
	g := p.Resolve()
	order, err := g.Order()
	if err != nil {
		return nil, 0, err
	}
	const nowhere = -1
	total := make([]time.Duration, len(g.Names))
	before := make([]int, len(g.Names))
	last := nowhere
	for _, at := range order {
		best := nowhere
		for _, up := range g.Up[at] {
			if best == nowhere || total[up] > total[best] {
				best = up
			}
		}
		before[at] = best
		total[at] = weight(g.Names[at])
		if best != nowhere {
			total[at] += total[best]
		}
		if last == nowhere || total[at] > total[last] {
			last = at
		}
	}
	if last == nowhere {
		return nil, 0, nil
	}
	var path []string
	for at := last; at != nowhere; at = before[at] {
		path = append(path, g.Names[at])
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

// FastestPath is the path of modules that takes longest when every module runs
// alone, at its least profiled duration on the hardware it may use, and that
// time. Modules without a profile count as taking none.
func (p *Pipeline) FastestPath(hardware []Hardware) ([]string, time.Duration, error) {
	at := p.Resolve().at
	return p.LongestPath(func(name string) time.Duration {
		m := &p.Modules[at[name]]
		least := time.Duration(math.MaxInt64)
		for _, at := range m.Profile.Points {
			declared := func(h Hardware) bool { return h.Name == at.Hardware }
			if slices.ContainsFunc(hardware, declared) && (len(m.Hardware) == 0 || slices.Contains(m.Hardware, at.Hardware)) {
				least = min(least, at.Duration)
			}
		}
		if least == math.MaxInt64 {
			return 0
		}
		return least
	})
}

// Graph is the modules of a pipeline with their references resolved, made in
// one pass, so that walks over pipelines of many modules take time in
// proportion to them.
type Graph struct {
	p     *Pipeline
	Names []string         // of modules, as declared
	at    map[string]int   // where a module of that name is declared first
	In    map[string]*Port // inputs of the pipeline by name
	Up    [][]int          // the modules that feed one directly, each once, in the order of its inputs
}

// Resolve finds what the references of a pipeline's modules lead to.
func (p *Pipeline) Resolve() *Graph {
	n := len(p.Modules)
	g := &Graph{p: p, Names: make([]string, n), at: make(map[string]int, n), In: make(map[string]*Port, len(p.Inputs)), Up: make([][]int, n)}
	for i := range p.Modules {
		g.Names[i] = p.Modules[i].Name
		if _, taken := g.at[g.Names[i]]; !taken {
			g.at[g.Names[i]] = i
		}
	}
	for i := range p.Inputs {
		if _, taken := g.In[p.Inputs[i].Name]; !taken {
			g.In[p.Inputs[i].Name] = &p.Inputs[i]
		}
	}
	for i := range p.Modules {
		seen := map[int]bool{}
		for _, r := range p.Modules[i].Reads() {
			from, ok := g.at[r.Module]
			if ok && r.Module != "" && !seen[from] {
				seen[from] = true
				g.Up[i] = append(g.Up[i], from)
			}
		}
	}
	return g
}

// Has reports whether there is a module of that name.
func (g *Graph) Has(module string) bool {
	_, ok := g.at[module]
	return ok
}

// above reports whether the module of that name feeds the one at a place, over others or not.
func (g *Graph) above(name string, at int) bool {
	seen := make([]bool, len(g.Names))
	for next := []int{at}; len(next) > 0; next = next[1:] {
		for _, up := range g.Up[next[0]] {
			if g.Names[up] == name {
				return true
			}
			if !seen[up] {
				seen[up], next = true, append(next, up)
			}
		}
	}
	return false
}

// Module is the one of that name, which must exist.
func (g *Graph) Module(name string) *Module { return &g.p.Modules[g.at[name]] }

// ready holds the positions of modules that may come next; the one declared
// first is taken first.
type ready []int

func (r ready) Len() int           { return len(r) }
func (r ready) Less(i, j int) bool { return r[i] < r[j] }
func (r ready) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ready) Push(x any)        { *r = append(*r, x.(int)) }
func (r *ready) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// Order gives the positions of the modules so that each stands after all that
// feed it; where several could come next, the one declared first does. The
// error is a *CycleError. Of modules that share a name only the first counts.
func (g *Graph) Order() ([]int, error) {
	waits := make([]int, len(g.Names)) // modules above that are not placed yet
	down := make([][]int, len(g.Names))
	var next ready
	for i, name := range g.Names {
		if g.at[name] != i {
			continue
		}
		waits[i] = len(g.Up[i])
		for _, u := range g.Up[i] {
			down[u] = append(down[u], i)
		}
		if waits[i] == 0 {
			next = append(next, i)
		}
	}
	heap.Init(&next)
	placed := make([]int, 0, len(g.at))
	for len(next) > 0 {
		i := heap.Pop(&next).(int)
		placed = append(placed, i)
		for _, d := range down[i] {
			if waits[d]--; waits[d] == 0 {
				heap.Push(&next, d)
			}
		}
	}
	if len(placed) == len(g.at) {
		return placed, nil
	}
	for i, name := range g.Names {
		if g.at[name] == i && waits[i] > 0 {
			return nil, g.cycleFrom(i, waits)
		}
	}
	return placed, nil
}

// cycleFrom walks upstream from a module that could not be placed. Each such
// module has one above it that could not be placed either, so the walk comes
// round.
func (g *Graph) cycleFrom(i int, waits []int) *CycleError {
	var walk []string
	met := map[int]int{} // where in the walk
	for {
		if from, again := met[i]; again {
			cycle := append(slices.Clone(walk[from:]), g.Names[i])
			slices.Reverse(cycle)
			return &CycleError{Path: cycle}
		}
		met[i] = len(walk)
		walk = append(walk, g.Names[i])
		i = g.Up[i][slices.IndexFunc(g.Up[i], func(u int) bool { return waits[u] > 0 })]
	}
}

// Scopes gives the scope of every module: see Pipeline.Scope. It is nil when
// the modules form a cycle. Scopes end at MaxNesting.
func (g *Graph) Scopes() map[string][]string {
	order, err := g.Order()
	if err != nil {
		return nil
	}
	scopes := make(map[string][]string, len(order))
	for _, i := range order {
		m := &g.p.Modules[i]
		scope := CommonScopeOf(m, scopes)
		if m.Scatter && len(scope) < MaxNesting {
			scope = append(slices.Clone(scope), m.Name)
		}
		scopes[m.Name] = scope
	}
	return scopes
}

// MaxNesting bounds how many fan-outs may stand in one another: each multiplies
// the requests of the one above.
const MaxNesting = 64

// What stands for a dimension of which nobody says what is typical.
const (
	openRows = 4  // the first of a tensor
	openSide = 32 // any other
)

// OpenRows stands for the first dimension of a tensor that varies, where nobody says what is
// typical: the greatest fan-out, rounded up, but at least 4.
func (p *Pipeline) OpenRows() int64 {
	rows := int64(openRows)
	for i := range p.Modules {
		rows = max(rows, int64(math.Ceil(p.Modules[i].Fanout)))
	}
	return rows
}

// GatheredRows is how many items of a deeper scope come together at an input on average,
// rounded up: the fan-outs between the two, multiplied.
func (g *Graph) GatheredRows(m *Module, b Binding, scopes map[string][]string) int64 {
	mean := 1.0
	for _, name := range scopes[b.From.Module][len(CommonScopeOf(m, scopes)):] {
		if by := g.Module(name); !by.IsConditional() {
			mean *= by.Fanout
		}
	}
	return max(1, int64(math.Ceil(min(mean, maxBurst))))
}

// Closed is a shape without open dimensions; rows stands for the first.
func Closed(shape []int64, rows int64) []int64 {
	full := slices.Clone(shape)
	for i := range full {
		switch {
		case full[i] >= 0:
		case i == 0:
			full[i] = rows
		default:
			full[i] = openSide
		}
	}
	return full
}
