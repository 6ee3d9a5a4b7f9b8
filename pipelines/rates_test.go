package pipelines

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// walk takes one request through a pipeline item by item. An item is the way that it came: a
// step of module and number for each fan-out that it has passed.
func walk(p *Pipeline, order []string) map[string][]string {
	items := map[string][]string{"": {""}}
	for _, name := range order {
		m := p.Module(name)
		var fed [][]string // of every input item, its steps
		for _, r := range m.Reads() {
			for _, it := range items[r.Module] {
				fed = append(fed, strings.Fields(it))
			}
		}
		var runs []string
		for _, steps := range fed {
			if one := strings.Join(steps[:depth(m, fed, items)], " "); !slices.Contains(runs, one) {
				runs = append(runs, one)
			}
		}
		if m.Scatter {
			var split []string
			for _, one := range runs {
				for k := range int(m.Fanout) {
					split = append(split, strings.TrimSpace(fmt.Sprintf("%s %s#%d", one, name, k)))
				}
			}
			runs = split
		}
		items[name] = runs
	}
	return items
}

// depth is after how many fan-outs the module runs once for all that came of an item.
func depth(m *Module, fed [][]string, items map[string][]string) int {
	if m.Gather != "" && m.Gather != GatherAround {
		return len(strings.Fields(items[m.Gather][0]))
	}
	shared, alike := len(fed[0]), true
	for _, steps := range fed {
		alike = alike && len(steps) == len(fed[0])
		for k := range shared {
			if k >= len(steps) || module(steps[k]) != module(fed[0][k]) {
				shared, alike = k, false
				break
			}
		}
	}
	if m.Gather == GatherAround && alike && shared > 0 {
		return shared - 1
	}
	return shared
}

func module(step string) string { return step[:strings.Index(step, "#")] }

// TestRatesAndBurstsAgainstAWalk: of one request a second, the rate of a module, and the items
// of one request that come to it at most, are the items that a walk finds there, with joins of
// all kinds.
func TestRatesAndBurstsAgainstAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Pipeline{Name: "p", Rate: 1, Inputs: []Port{{Name: "x"}}}
		for i := range rapid.IntRange(1, 8).Draw(t, "modules") {
			m := Module{Name: fmt.Sprintf("m%d", i), Fanout: 1}
			for k := range i {
				if rapid.IntRange(0, 2).Draw(t, "feeds") == 0 {
					m.Inputs = append(m.Inputs, Binding{Name: fmt.Sprint("x", k), From: Ref{Module: p.Modules[k].Name, Port: "y"}})
				}
			}
			if len(m.Inputs) == 0 || rapid.IntRange(0, 3).Draw(t, "input") == 0 {
				m.Inputs = append(m.Inputs, Binding{Name: "x", From: Ref{Port: "x"}})
			}
			if m.Scatter = rapid.Bool().Draw(t, "scatters"); m.Scatter {
				m.Fanout = float64(rapid.IntRange(1, 3).Draw(t, "fanout"))
			}
			if when := rapid.IntRange(-3*i-1, i-1).Draw(t, "when"); when >= 0 {
				m.Scatter, m.Fanout, m.Most, m.When = true, 1, 1, Ref{Module: p.Modules[when].Name, Port: "y"}
			}
			p.Modules = append(p.Modules, m)
			last := &p.Modules[i]
			if gather := rapid.IntRange(-1, i).Draw(t, "gathers"); gather == i {
				last.Gather = GatherAround
			} else if gather >= 0 {
				last.Gather = p.Modules[gather].Name
				common, _ := sharedScope(last, p.scopes())
				if to := p.Scope(last.Gather); !p.Resolve().above(last.Gather, i) || sharedBy(common, to) < len(to) {
					last.Gather = "" // refused
				}
			}
		}
		order, err := p.Order()
		require.NoError(t, err)
		items, rates, bursts := walk(p, order), p.Rates(), p.Bursts()
		for _, name := range order {
			require.InEpsilon(t, float64(len(items[name])), rates[name], 1e-9, "%s of %+v", name, p.Modules)
			require.Equal(t, len(items[name]), bursts[name], "%s of %+v", name, p.Modules)
		}
	})
}
