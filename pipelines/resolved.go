package pipelines

import (
	"container/heap"
	"slices"
)

// graph is the modules of a pipeline with their references resolved, made in
// one pass, so that walks over pipelines of many modules take time in
// proportion to them.
type graph struct {
	p     *Pipeline
	names []string         // of modules, as declared
	at    map[string]int   // where a module of that name is declared first
	in    map[string]*Port // inputs of the pipeline by name
	up    [][]int          // the modules that feed one directly, each once, in the order of its inputs
}

func (p *Pipeline) resolve() *graph {
	n := len(p.Modules)
	g := &graph{p: p, names: make([]string, n), at: make(map[string]int, n), in: make(map[string]*Port, len(p.Inputs)), up: make([][]int, n)}
	for i := range p.Modules {
		g.names[i] = p.Modules[i].Name
		if _, taken := g.at[g.names[i]]; !taken {
			g.at[g.names[i]] = i
		}
	}
	for i := range p.Inputs {
		if _, taken := g.in[p.Inputs[i].Name]; !taken {
			g.in[p.Inputs[i].Name] = &p.Inputs[i]
		}
	}
	for i := range p.Modules {
		seen := map[int]bool{}
		for _, b := range p.Modules[i].Inputs {
			from, ok := g.at[b.From.Module]
			if ok && b.From.Module != "" && !seen[from] {
				seen[from] = true
				g.up[i] = append(g.up[i], from)
			}
		}
	}
	return g
}

func (g *graph) has(module string) bool {
	_, ok := g.at[module]
	return ok
}

// module is the one of that name, which must exist.
func (g *graph) module(name string) *Module { return &g.p.Modules[g.at[name]] }

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

// order gives the positions of the modules so that each stands after all that
// feed it; where several could come next, the one declared first does. The
// error is a *CycleError. Of modules that share a name only the first counts.
func (g *graph) order() ([]int, error) {
	waits := make([]int, len(g.names)) // modules above that are not placed yet
	down := make([][]int, len(g.names))
	var next ready
	for i, name := range g.names {
		if g.at[name] != i {
			continue
		}
		waits[i] = len(g.up[i])
		for _, u := range g.up[i] {
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
	for i, name := range g.names {
		if g.at[name] == i && waits[i] > 0 {
			return nil, g.cycleFrom(i, waits)
		}
	}
	return placed, nil
}

// cycleFrom walks upstream from a module that could not be placed. Each such
// module has one above it that could not be placed either, so the walk comes
// round.
func (g *graph) cycleFrom(i int, waits []int) *CycleError {
	var walk []string
	met := map[int]int{} // where in the walk
	for {
		if from, again := met[i]; again {
			cycle := append(slices.Clone(walk[from:]), g.names[i])
			slices.Reverse(cycle)
			return &CycleError{Path: cycle}
		}
		met[i] = len(walk)
		walk = append(walk, g.names[i])
		i = g.up[i][slices.IndexFunc(g.up[i], func(u int) bool { return waits[u] > 0 })]
	}
}

// scopes gives the scope of every module: see Pipeline.Scope. It is nil when
// the modules form a cycle. Scopes end at maxNesting.
func (g *graph) scopes() map[string][]string {
	order, err := g.order()
	if err != nil {
		return nil
	}
	scopes := make(map[string][]string, len(order))
	for _, i := range order {
		m := &g.p.Modules[i]
		scope := commonScope(m, scopes)
		if m.Scatter && len(scope) < maxNesting {
			scope = append(slices.Clone(scope), m.Name)
		}
		scopes[m.Name] = scope
	}
	return scopes
}
