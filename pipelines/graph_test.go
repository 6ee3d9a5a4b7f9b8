package pipelines

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dag builds a pipeline from "module: upstream..." declarations; "in" is the
// pipeline's input. A module whose name is in fanout scatters.
func dag(rate float64, fanout map[string]float64, modules ...[]string) *Pipeline {
	p := &Pipeline{Name: "p", Rate: rate, Inputs: []Port{{Name: "in"}}}
	for _, decl := range modules {
		m := Module{Name: decl[0], Fanout: 1}
		if f, ok := fanout[m.Name]; ok {
			m.Scatter, m.Fanout = true, f
		}
		for _, up := range decl[1:] {
			ref := Ref{Module: up, Port: "out"}
			if up == "in" {
				ref = Ref{Port: "in"}
			}
			m.Inputs = append(m.Inputs, Binding{Name: "x" + up, From: ref})
		}
		p.Modules = append(p.Modules, m)
	}
	return p
}

func TestOrderKeepsDeclarationForTies(t *testing.T) {
	p := dag(1, nil, []string{"d", "b", "c"}, []string{"c", "a"}, []string{"b", "a"}, []string{"a", "in"})
	order, err := p.Order()
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "c", "b", "d"}, order)
	assert.Equal(t, []string{"b", "c"}, p.Upstream("d"))
	assert.Equal(t, []string{"c", "b"}, p.Downstream("a"))
	assert.Nil(t, p.Module("nobody"))
	assert.Nil(t, p.Upstream("nobody"))
	assert.Equal(t, "in", p.Input("in").Name)
	assert.Nil(t, p.Input("nobody"))
}

func TestOrderNamesTheCycle(t *testing.T) {
	p := dag(1, nil, []string{"a", "in"}, []string{"b", "a", "d"}, []string{"c", "b"}, []string{"d", "c"})
	_, err := p.Order()
	var cycle *CycleError
	require.ErrorAs(t, err, &cycle)
	assert.Equal(t, []string{"b", "c", "d", "b"}, cycle.Path)
	assert.Nil(t, p.Rates())
	assert.Nil(t, p.Scope("b"))
	_, _, err = p.LongestPath(func(string) time.Duration { return 1 })
	assert.Error(t, err)

	self := dag(1, nil, []string{"a", "a"})
	_, err = self.Order()
	assert.EqualError(t, err, "pipelines: modules form a cycle: a -> a")
}

func TestRates(t *testing.T) {
	p := dag(100, map[string]float64{"crop": 1.8, "part": 0.5},
		[]string{"detect", "in"}, []string{"crop", "in", "detect"},
		[]string{"colour", "crop"}, []string{"part", "colour"}, []string{"join", "colour", "part"})
	assert.Equal(t, map[string]float64{
		"detect": 100, "crop": 180, "colour": 180, "part": 90, "join": 180,
	}, p.Rates())

	p.Modules[2].Rate = 10
	assert.Equal(t, 10.0, p.Rates()["colour"])
	assert.Equal(t, 5.0, p.Rates()["part"], "an override carries downwards")

	p = dag(100, map[string]float64{"crop": 16, "part": 0.5},
		[]string{"detect", "in"}, []string{"crop", "detect"}, []string{"colour", "crop"}, []string{"part", "crop"},
		[]string{"frame", "colour", "in"}, []string{"each", "part", "colour"}, []string{"only", "colour", "part"},
		[]string{"all", "colour"}, []string{"parts", "part"}, []string{"top", "part"})
	p.Module("only").Inputs = p.Module("only").Inputs[1:]
	p.Module("all").Gather, p.Module("parts").Gather, p.Module("top").Gather, p.Module("only").Gather = GatherAround, GatherAround, "detect", "crop"
	want := map[string]float64{
		"detect": 100, "crop": 1600, "colour": 1600, "part": 800, "frame": 100, "each": 1600, "only": 1600, "all": 100, "parts": 1600, "top": 100,
	}
	assert.Equal(t, want, p.Rates(), "a module that gathers has the rate of its scope")
	p.Module("detect").Rate = 10
	assert.Equal(t, 10.0, p.Rates()["top"], "that of the module to which it gathers")
	p.Module("all").Rate = 3
	assert.Equal(t, 3.0, p.Rates()["all"], "its own rate overrides")
	assert.Equal(t, []string{"detect"}, p.Follows("top"))
	assert.Equal(t, []string{"crop"}, p.Follows("parts"))
	assert.Empty(t, p.Follows("all"))
	assert.Empty(t, p.Follows("nobody"))

	byHand := &Pipeline{Rate: 7, Modules: []Module{{Name: "a"}}}
	assert.Equal(t, map[string]float64{"a": 7}, byHand.Rates())
	byHand.Rate = 1e-300
	assert.Equal(t, map[string]float64{"a": LeastRate}, byHand.Rates())
}

// TestGathersThatCannotBe looks for the place and the words of what is wrong.
func TestGathersThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ module, to, want string }{
		"around":           {"labels", GatherAround, ""},
		"to the frame":     {"labels", "detect", ""},
		"as without":       {"frames", "detect", ""},
		"of two":           {"both", GatherAround, ""},
		"no fan-out above": {"again", GatherAround, "Nothing to gather: No module above \"again\" has a fanout"},
		"not above":        {"labels", "word", "Gathered to a module beside: \"word\" is not among the modules that feed \"labels\""},
		"itself":           {"labels", "labels", "Gathered to a module beside"},
		"too deep":         {"frames", "crop", "Gathered too deep: Not all inputs of \"frames\" have come of an item of \"crop\": they share the request only."},
		"one branch":       {"join", "word", "Gathered too deep: Not all inputs of \"join\""},
		"one by one":       {"labels", "crop", "Nothing to gather: \"labels\" gets its inputs once for each item of \"crop\" already"},
		"unknown":          {"labels", "crap", "Unknown reference: The pipeline has no module \"crap\". Did you mean \"crop\"?"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dag(1, map[string]float64{"crop": 2, "word": 3},
				[]string{"detect", "in"}, []string{"again", "detect"}, []string{"crop", "detect"}, []string{"word", "again"},
				[]string{"labels", "crop"}, []string{"frames", "crop", "in"}, []string{"both", "crop", "labels"}, []string{"join", "crop", "word"})
			p.Module(c.module).Gather = c.to
			var found []string
			for _, f := range CheckAll(&Document{Pipelines: []Pipeline{*p}}, Sources{}, nil) {
				if f.Path == "pipeline.p.module."+c.module+".gather" {
					found = append(found, f.Summary+": "+f.Detail)
				}
			}
			if c.want == "" {
				assert.Empty(t, found)
			} else if assert.Len(t, found, 1) {
				assert.Contains(t, found[0], c.want)
			}
		})
	}
}

// merge feeds the join from one of two modules.
func merge(p *Pipeline, from, or string) {
	p.Module("join").Inputs[0] = Binding{Name: "one", From: Ref{Module: from, Port: "y"}, Or: Ref{Module: or, Port: "y"}}
	p.Module("join").Inputs[1].From = Ref{Port: p.Inputs[0].Name}
	if from != "after" && or != "after" {
		p.Outputs = append(p.Outputs, Output{Name: "z", From: Ref{Module: "after", Port: "y"}})
	}
}

// TestConditionsThatCannotBe looks for the place and the words of what is wrong.
func TestConditionsThatCannotBe(t *testing.T) {
	found := Ref{Module: "gate", Port: "found"}
	for name, c := range map[string]struct {
		change   func(p *Pipeline)
		at, want string
	}{
		"a share of two": {func(p *Pipeline) { p.Module("yes").Fanout = 1.5 }, "yes.fanout", "Invalid fanout: Beside a condition, the fanout is the share of items"},
		"two at most":    {func(p *Pipeline) { p.Module("yes").Most = 2 }, "yes.fanout", "Invalid fanout: Beside a condition"},
		"no share":       {func(p *Pipeline) { p.Module("yes").Fanout = 0 }, "yes.fanout", "Invalid fanout: A fanout is the mean number"},
		"unknown":        {func(p *Pipeline) { p.Module("yes").When.Module = "gat" }, "yes.when", "Unknown reference: The pipeline has no module \"gat\". Did you mean \"gate\"?"},
		"a cycle":        {func(p *Pipeline) { p.Module("no").When.Module = "join" }, "no.else", "Modules form a cycle: no waits for itself"},
		"two conditions": {func(p *Pipeline) { p.Module("no").When.Port = "lost" }, "join.inputs", "Join over different conditions: \"join\" joins yes and no, which run by module.gate.found and by module.gate.lost"},
		"deeper": {func(p *Pipeline) {
			p.Module("after").When, p.Module("after").Scatter, p.Module("after").Most = Ref{Module: "yes", Port: "z"}, true, 1
		}, "", ""},
		"nothing":      {func(*Pipeline) {}, "", ""},
		"one of two":   {func(p *Pipeline) { merge(p, "after", "no") }, "", ""},
		"one of one":   {func(p *Pipeline) { merge(p, "yes", "after") }, "join.inputs.one", "Not two branches of one condition: \"join\" takes module.yes.y or module.after.y, of which a request may have both or none. Let one of the two run by when"},
		"or always":    {func(p *Pipeline) { merge(p, "yes", "gate") }, "join.inputs.one", "Not two branches of one condition"},
		"both by when": {func(p *Pipeline) { merge(p, "yes", "no"); p.Module("no").Else = false }, "join.inputs.one", "Not two branches of one condition"},
		"or another":   {func(p *Pipeline) { merge(p, "yes", "no"); p.Module("no").When.Port = "lost" }, "join.inputs.one", "Not two branches of one condition"},
		"or nothing":   {func(p *Pipeline) { merge(p, "yes", "now") }, "join.inputs.one", "Unknown reference: The pipeline has no module \"now\". Did you mean \"no\"?"},
		"or itself":    {func(p *Pipeline) { merge(p, "yes", "join") }, "join.inputs.one", "Modules form a cycle: join waits for itself"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dag(1, map[string]float64{"yes": 0.3, "no": 0.7}, []string{"gate", "in"}, []string{"yes", "in"}, []string{"no", "gate"},
				[]string{"after", "yes"}, []string{"join", "after", "no", "in"})
			p.SLO, p.Outputs = time.Second, []Output{{Name: "y", From: Ref{Module: "join", Port: "y"}}}
			for i := range p.Modules {
				p.Modules[i].Profile.Points = []Point{{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 1}}
			}
			for _, m := range []*Module{p.Module("yes"), p.Module("no")} {
				m.When, m.Most, m.Else = found, 1, m.Name == "no"
			}
			c.change(p)
			var all []string
			p.Inputs[0].Datatype = "FP32"
			for _, f := range CheckAll(&Document{Pipelines: []Pipeline{*p}, Hardware: []Hardware{{Name: "gpu", Price: 1}}}, Sources{}, nil) {
				all = append(all, f.Path+" "+f.Summary+": "+f.Detail)
			}
			if c.at == "" {
				require.Empty(t, all)
				return
			}
			require.NotEmpty(t, all)
			assert.Contains(t, strings.Join(all, "\n"), "pipeline.p.module."+c.at+" "+c.want)
		})
	}
}

func TestBursts(t *testing.T) {
	for name, c := range map[string]struct {
		m    Module
		want int
	}{
		"plain":                 {Module{Fanout: 1}, 1},
		"filled in by hand":     {Module{}, 1},
		"thinned out by hand":   {Module{Fanout: 0.5}, 0},
		"always":                {Module{Scatter: true, Fanout: 16}, 16},
		"on average":            {Module{Scatter: true, Fanout: 1.8}, 0},
		"at most":               {Module{Scatter: true, Fanout: 1.8, Most: 8}, 8},
		"a whole mean, at most": {Module{Scatter: true, Fanout: 2, Most: 8}, 8},
		"not declared":          {Module{Scatter: true}, 0},
		"beyond all bounds":     {Module{Scatter: true, Fanout: 1e300}, 0},
	} {
		assert.Equal(t, c.want, c.m.MostItems(), name)
	}

	p := dag(1, map[string]float64{"crop": 16, "part": 0.3, "word": 1.5, "sheet": 65536, "line": 65536, "glyph": 2},
		[]string{"detect", "in"}, []string{"crop", "detect"}, []string{"part", "crop"}, []string{"mark", "part"},
		[]string{"join", "mark", "crop"}, []string{"word", "detect"}, []string{"letter", "word"}, []string{"all", "letter", "in"},
		[]string{"sheet", "in"}, []string{"line", "sheet"}, []string{"glyph", "line"})
	p.Module("part").Most = 2
	assert.Equal(t, map[string]int{
		"detect": 1, "crop": 16, "part": 32, "mark": 32, "join": 16, "word": 0, "letter": 0, "all": 1, "sheet": 65536, "line": 0, "glyph": 0,
	}, p.Bursts())
	p.Modules[0].Inputs[0].From = Ref{Module: "all", Port: "y"}
	assert.Nil(t, p.Bursts(), "a cycle")
}

func TestScopes(t *testing.T) {
	p := dag(1, map[string]float64{"crop": 2, "part": 3, "word": 4},
		[]string{"detect", "in"},
		[]string{"crop", "in", "detect"},
		[]string{"colour", "crop"},
		[]string{"part", "colour"},
		[]string{"letter", "part"},
		[]string{"word", "detect"},
		[]string{"per_crop", "letter", "colour"},
		[]string{"join", "letter", "word"},
		[]string{"with_frame", "in", "crop"})
	want := map[string][]string{
		"detect": nil, "crop": {"crop"}, "colour": {"crop"}, "part": {"crop", "part"},
		"letter": {"crop", "part"}, "word": {"word"}, "per_crop": {"crop"},
		"join": {}, "with_frame": {},
	}
	for name, scope := range want {
		assert.ElementsMatch(t, scope, p.Scope(name), name)
	}
	assert.Equal(t, []string{"crop", "part"}, p.Scope("letter"), "outermost first")
	assert.Empty(t, p.CommonScope("crop"))
	assert.Equal(t, []string{"crop"}, p.CommonScope("part"))
	assert.Equal(t, []string{"crop"}, p.ScopeOf(Ref{Module: "colour", Port: "x"}))
	assert.Empty(t, p.ScopeOf(Ref{Port: "in"}))
	assert.Nil(t, p.CommonScope("nobody"))
}

func TestLongestPath(t *testing.T) {
	p := dag(1, nil, []string{"a", "in"}, []string{"b", "a"}, []string{"c", "a"}, []string{"d", "b", "c"})
	weight := map[string]time.Duration{"a": 1, "b": 2, "c": 5, "d": 1}
	path, total, err := p.LongestPath(func(m string) time.Duration { return weight[m] })
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "c", "d"}, path)
	assert.Equal(t, time.Duration(7), total)

	path, total, err = (&Pipeline{}).LongestPath(nil)
	require.NoError(t, err)
	assert.Empty(t, path)
	assert.Zero(t, total)
}

func TestRefString(t *testing.T) {
	assert.Equal(t, "input.frame", Ref{Port: "frame"}.String())
	assert.Equal(t, "module.detect.boxes", Ref{Module: "detect", Port: "boxes"}.String())
}
