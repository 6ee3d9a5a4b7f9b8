package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

// twin computes by brute force what Request keeps count of: after every step it checks all
// modules and all frames again. A frame is the path to it: the place of an item in each of
// the scopes around it. Scopes are those of package pipelines, lists of names.
type twin struct {
	p      *pipelines.Pipeline
	needed map[string]bool
	split  map[string]int  // items by module and frame
	done   map[string]bool // by module and frame
}

func key(module string, frame []int) string { return fmt.Sprint(module, frame) }

// frames lists those of a scope below a frame, in order, as far as modules have
// been split, and reports whether these are all.
func (w *twin) frames(scope []string, under []int) (all [][]int, known bool) {
	if len(under) == len(scope) {
		return [][]int{under}, true
	}
	k, known := w.split[key(scope[len(under)], under)]
	for i := range k {
		more, sure := w.frames(scope, append(slices.Clone(under), i))
		all, known = append(all, more...), known && sure
	}
	return all, known
}

// complete reports that the module has run in all frames below.
func (w *twin) complete(module string, under []int) bool {
	all, known := w.frames(w.p.Scope(module), under)
	return known && !slices.ContainsFunc(all, func(f []int) bool { return !w.done[key(module, f)] })
}

// ready lists everything that has ever been ready: module and frame of its
// common scope.
func (w *twin) ready() (list []string) {
	for i := range w.p.Modules {
		name := w.p.Modules[i].Name
		frames, _ := w.frames(w.p.CommonScope(name), nil)
		for _, f := range frames {
			waits := slices.ContainsFunc(w.p.Upstream(name), func(up string) bool { return !w.complete(up, f) })
			if w.needed[name] && !waits {
				list = append(list, key(name, f))
			}
		}
	}
	return list
}

func (w *twin) over() bool {
	for name := range w.needed {
		if w.output(name) && !w.complete(name, nil) {
			return false
		}
	}
	return true
}

func (w *twin) output(name string) bool {
	if len(w.p.Outputs) == 0 {
		return len(w.p.Downstream(name)) == 0
	}
	return slices.ContainsFunc(w.p.Outputs, func(o pipelines.Output) bool { return o.From.Module == name })
}

// need walks upstream from the outputs.
func (w *twin) need() {
	for changed := true; changed; {
		changed = false
		for i := range w.p.Modules {
			name := w.p.Modules[i].Name
			below := slices.ContainsFunc(w.p.Downstream(name), func(d string) bool { return w.needed[d] })
			if (below || w.output(name)) && !w.needed[name] {
				w.needed[name], changed = true, true
			}
		}
	}
}

// drawPipeline draws a DAG in which any module may scatter, up to four levels.
func drawPipeline(t *rapid.T) *pipelines.Pipeline {
	p := &pipelines.Pipeline{Name: "p", Inputs: []pipelines.Port{{Name: "x"}}}
	for i := range rapid.IntRange(1, 8).Draw(t, "modules") {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
		m.Inputs = append(m.Inputs, pipelines.Binding{Name: "c", Value: 1.0})
		for k := range i {
			if rapid.IntRange(0, 2).Draw(t, "feeds") > 0 {
				up := pipelines.Ref{Module: p.Modules[k].Name, Port: "y"}
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: up.Module, From: up}, pipelines.Binding{Name: up.Module + "again", From: up})
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "input") == 0 {
			m.Inputs = append(m.Inputs, pipelines.Binding{Name: "x", From: pipelines.Ref{Port: "x"}})
		}
		p.Modules = append(p.Modules, m)
		last := &p.Modules[i]
		if gather := rapid.IntRange(-2, i).Draw(t, "gathers"); gather == i {
			last.Gather = pipelines.GatherAround
		} else if gather >= 0 && above(p, m.Name, p.Modules[gather].Name) {
			last.Gather = p.Modules[gather].Name
		}
		if when := rapid.IntRange(-2*i-1, i-1).Draw(t, "when"); when >= 0 {
			last.When = pipelines.Ref{Module: p.Modules[when].Name, Port: "y"}
		}
		last.Scatter = rapid.Bool().Draw(t, "scatters") && len(p.CommonScope(m.Name)) < 3
		if rapid.IntRange(0, 2).Draw(t, "output") == 0 {
			p.Outputs = append(p.Outputs, pipelines.Output{Name: m.Name, From: pipelines.Ref{Module: m.Name, Port: "y"}})
		}
	}
	return p
}

// above reports whether a module feeds another, over others or not.
func above(p *pipelines.Pipeline, name, from string) bool {
	return slices.ContainsFunc(p.Upstream(name), func(up string) bool { return up == from || above(p, up, from) })
}

// TestRequestsAgainstBruteForce runs requests through random DAGs with fan-outs
// within fan-outs, of no item at all too, and completes what is ready in random
// order. Every item becomes ready exactly once and exactly when the twin's does; joins see
// their items in order.
func TestRequestsAgainstBruteForce(t *testing.T) {
	var r Request // used again from one request to the next
	rapid.Check(t, func(t *rapid.T) {
		p := drawPipeline(t)
		g, err := Compile(p)
		require.NoError(t, err)
		w := &twin{p: p, needed: map[string]bool{}, split: map[string]int{}, done: map[string]bool{}}
		w.need()
		paths := [][]int{{}} // by frame
		var seen []string
		work := r.Begin(g, nil)
		told := 0 // of work, how many have been compared
		tell := func() {
			for ; told < len(work); told++ {
				seen = append(seen, key(g.Nodes[work[told].Node].Module, paths[work[told].Frame]))
			}
			slices.Sort(seen)
			want := w.ready()
			slices.Sort(want)
			require.Equal(t, want, seen)
			require.Equal(t, w.over(), r.Done())
			require.Equal(t, len(paths)*len(g.Nodes), r.Len())
		}
		tell()
		var running []Item
		for next := 0; next < len(work) || len(running) > 0; {
			if next < len(work) && (len(running) == 0 || rapid.Bool().Draw(t, "start")) {
				it := work[next]
				next++
				n := &g.Nodes[it.Node]
				if !n.Scatter {
					running = append(running, it)
					continue
				}
				k := rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "items")
				var first int32
				first, work = r.Split(it, k, work)
				require.EqualValues(t, len(paths), first)
				for i := range k {
					paths = append(paths, append(slices.Clone(paths[it.Frame]), i))
					running = append(running, Item{Node: it.Node, Frame: first + int32(i)})
				}
				w.split[key(n.Module, paths[it.Frame])] = k
				tell()
				continue
			}
			at := rapid.IntRange(0, len(running)-1).Draw(t, "completes")
			it := running[at]
			running = slices.Delete(running, at, at+1)
			w.done[key(g.Nodes[it.Node].Module, paths[it.Frame])] = true
			work = r.Complete(it, work)
			tell()
		}
		require.True(t, r.Done())
		checkJoins(t, &r, w, paths)
	})
}

// checkJoins holds that every module receives the items of the modules above in
// order.
func checkJoins(t *rapid.T, r *Request, w *twin, paths [][]int) {
	for i := range r.graph.Nodes {
		n := &r.graph.Nodes[i]
		for at, f := range paths {
			if r.frames[at].scope != n.Common {
				continue
			}
			for _, up := range w.p.Upstream(n.Module) {
				want, _ := w.frames(w.p.Scope(up), f)
				var got [][]int
				for _, frame := range r.Frames(int32(r.graph.Node(up)), int32(at), nil) {
					got = append(got, paths[frame])
				}
				require.Equal(t, want, got, "%s to %s in %v", up, n.Module, f)
			}
		}
	}
}

// TestScopesAreThoseOfTheDeclaration compares with the chains of names that
// validation goes by.
func TestScopesAreThoseOfTheDeclaration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPipeline(t)
		g, err := Compile(p)
		require.NoError(t, err)
		name := func(scope int32) string {
			var chain []string
			for ; scope > 0; scope = g.Scopes[scope].Parent {
				chain = append(chain, g.Nodes[g.Scopes[scope].Node].Module)
			}
			slices.Reverse(chain)
			return strings.Join(chain, "/")
		}
		for i := range g.Nodes {
			n := &g.Nodes[i]
			require.Equal(t, strings.Join(p.Scope(n.Module), "/"), name(n.Scope))
			require.Equal(t, strings.Join(p.CommonScope(n.Module), "/"), name(n.Common))
			require.EqualValues(t, len(p.Upstream(n.Module)), n.Feeders)
		}
	})
}
