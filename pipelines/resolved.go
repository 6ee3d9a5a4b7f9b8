package pipelines

import (
	"container/heap"
	"slices"
)

// graph is the modules of a pipeline with their references resolved, made in
// one pass, so that walks over pipelines of many modules take time in
// proportion to them.
type Graph struct {
	p     *Pipeline
	Names []string         // of modules, as declared
	at    map[string]int   // where a module of that name is declared first
	In    map[string]*Port // inputs of the pipeline by name
	Up    [][]int          // the modules that feed one directly, each once, in the order of its inputs
}

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
		for _, b := range p.Modules[i].Inputs {
			from, ok := g.at[b.From.Module]
			if ok && b.From.Module != "" && !seen[from] {
				seen[from] = true
				g.Up[i] = append(g.Up[i], from)
			}
		}
	}
	return g
}

func (g *Graph) Has(module string) bool {
	_, ok := g.at[module]
	return ok
}

// module is the one of that name, which must exist.
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

// order gives the positions of the modules so that each stands after all that
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

// scopes gives the scope of every module: see Pipeline.Scope. It is nil when
// the modules form a cycle. Scopes end at maxNesting.
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

// maxNesting bounds how many fan-outs may stand in one another: each multiplies
// the requests of the one above.
const MaxNesting = 64
