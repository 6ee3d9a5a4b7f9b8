package hcl

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/pipelines/files"
)

// drawDocument draws a document such as the builder makes.
func drawDocument(t *rapid.T) pipelines.Document {
	word := rapid.StringMatching(`[a-z][a-z0-9_.-]{0,8}`)
	text := rapid.StringMatching(`[a-zA-Z0-9 "$%{}\\é/_.-]{1,12}`)
	rate := rapid.Float64Range(0, 1e6)
	var doc pipelines.Document
	for i := range rapid.IntRange(0, 3).Draw(t, "hardware") {
		doc.Hardware = append(doc.Hardware, pipelines.Hardware{
			Name: fmt.Sprintf("%s%d", word.Draw(t, "name"), i), Price: rapid.Float64Range(1e-9, 1e9).Draw(t, "price"),
			Memory: rapid.Int64Range(0, math.MaxInt64/4).Draw(t, "memory") >> rapid.IntRange(0, 60).Draw(t, "shift"), Count: rapid.IntRange(0, 100).Draw(t, "count"),
		})
		if doc.Hardware[i].Memory > 1<<53 {
			doc.Hardware[i].Memory = 1 << 53
		}
	}
	b := build.New(word.Draw(t, "pipeline")).SLO(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "slo"))).Rate(rate.Draw(t, "rate")).
		Arrivals(rapid.SampledFrom([]string{"even", "poisson", "gamma:0.1"}).Draw(t, "arrivals"))
	b.Plan(drawPlanning(t))
	shape := rapid.SliceOfN(rapid.Int64Range(1, 512), 0, 4).Draw(t, "shape")
	varies := len(shape) > 0 && rapid.Bool().Draw(t, "varies")
	if varies {
		shape[len(shape)-1] = -1
	}
	b.Input("x", "FP32", shape...)
	if n := len(shape); varies {
		b.Typical("x", rapid.SliceOfN(rapid.Int64Range(1, 512), n, n).Draw(t, "typical")...)
	}
	from := build.FromInput("x")
	for i := range rapid.IntRange(1, 4).Draw(t, "modules") {
		name := fmt.Sprintf("%s%d", word.Draw(t, "module"), i)
		m := build.Step(name, text.Draw(t, "function"))
		if rapid.Bool().Draw(t, "network") {
			m = build.Network(name, "/"+text.Draw(t, "model"))
		} else {
			for range rapid.IntRange(0, 3).Draw(t, "parameters") {
				m.Parameter(text.Draw(t, "parameter"), rapid.SampledFrom(goValues()).Draw(t, "value"))
			}
		}
		input := word.Draw(t, "input")
		m.In(input, from)
		if rapid.IntRange(0, 3).Draw(t, "merges") == 0 {
			m.Either("2"+word.Draw(t, "merge"), from, build.From("a.b", word.Draw(t, "other branch")))
		}
		if rapid.Bool().Draw(t, "typical input") {
			m.Typical(input, rapid.SliceOfN(rapid.Int64Range(1, 512), 0, 4).Draw(t, "typical")...)
		}
		if rapid.Bool().Draw(t, "constants") {
			m.InConstant("1"+word.Draw(t, "fixed"), rapid.SampledFrom([]any{16000, "text ${x}", false, 0, []int64{1, 2}, [][]float32{{0.5}, {1}}, []string{"a"}}).Draw(t, "constant"))
		}
		switch rapid.IntRange(0, 2).Draw(t, "batching") {
		case 1:
			m.Unbatched()
		case 2:
			m.BatchAxis("state", rapid.IntRange(pipelines.NoBatchAxis, 3).Draw(t, "axis")).BatchAxis("s r", 1)
		}
		switch mean := rapid.Float64Range(0.001, 50).Draw(t, "fanout"); rapid.IntRange(0, 2).Draw(t, "scatter") {
		case 1:
			m.Fanout(mean)
		case 2:
			m.FanoutAtMost(mean, rapid.IntRange(1, 1000).Draw(t, "most"))
		}
		switch condition := build.From("a.b", word.Draw(t, "condition")); rapid.IntRange(0, 4).Draw(t, "conditional") {
		case 0:
			m.When(condition)
		case 1:
			m.Else(condition).Fanout(rapid.Float64Range(0.001, 1).Draw(t, "share"))
		}
		if rapid.Bool().Draw(t, "gathers") {
			m.Gather(rapid.SampledFrom([]string{"", from.Module, "a.b"}).Draw(t, "gather"))
		}
		m.Rate(rate.Draw(t, "own rate")).Engine(rapid.SampledFrom([]string{"", "auto", "emulated"}).Draw(t, "engine"))
		if rapid.Bool().Draw(t, "batches") {
			m.Batches(rapid.SliceOfN(rapid.IntRange(1, 64), 1, 4).Draw(t, "sizes")...)
		}
		b.Module(m)
		from = build.From(name, word.Draw(t, "output"))
	}
	b.Output("y", from)
	p, _ := b.Build() // what is wrong with it does not matter here
	doc.Pipelines = append(doc.Pipelines, p)
	return doc
}

// goValues are parameters of the types that programs have.
func goValues() []any {
	type label string
	mean := 0.5
	return []any{
		1.5, "two", true, []any{3.0, "four"}, -1e-7, 7, uint8(200), int64(-1 << 53), float32(0.25), label("car"), &mean,
		[]string{"car", "bus"}, []label{}, []int{1, 2, 3}, [2]bool{true, false}, []float32{0.5, 0.25}, [][]int32{{1, 2}, {3}},
		map[string]float64{"mean": 0.5, "a b": 2, "null": 0}, map[label]any{"of": []string{"${x}", "%{y}"}}, map[string]int{},
	}
}

func TestParametersThatADeclarationCannotHold(t *testing.T) {
	for name, value := range map[string]any{
		"a struct": struct{ X int }{1}, "nothing": nil, "no number": math.NaN(), "too large": math.Inf(1), "not exact": int64(1<<53 + 1),
		"a channel": make(chan int), "other keys": map[int]string{1: "x"}, "within": []any{1, []any{func() {}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build.New("p").SLO(time.Second).Rate(1).Input("x", "FP32", 1).
				Module(build.Step("m", "normalize").In("x", build.FromInput("x")).Parameter("labels", value)).
				Output("y", build.From("m", "y")).Build()
			require.ErrorContains(t, err, `parameter "labels" of module "m"`)
		})
	}
}

func TestHCLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		printed := HCL(doc)
		c, diags := Parse("/printed.hcl", printed)
		require.False(t, diags.HasErrors(), "%v\n%s", diags, printed)
		require.Equal(t, doc, c.Document, string(printed))
		require.Equal(t, string(printed), string(HCL(c.Document)))
		formatted, diags := Format("printed.hcl", printed)
		require.False(t, diags.HasErrors())
		require.Equal(t, string(printed), string(formatted), "canonical form is formatted")
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(traffic))
	f.Add(HCL(pipelines.Document{Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}}))
	f.Add([]byte(`pipeline "p" { module "m" { inputs = { (1) = module["a.b"].c } } }`))
	f.Add([]byte("pipeline \"p\" {\n plan {\n policy = \"harpagon\"\n without = [\"merge\", null]\n allow_unsound = true\n }\n plan {}\n}"))
	f.Add([]byte(clustered))
	f.Add([]byte("cluster \"c\" {\n hardware = \"gpu\"\n devices = { min = 2, max = null }\n pipelines = [\"a\", null]\n}"))
	for _, src := range tooComplexSources(maxOperators + 100) {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		c, diags := Parse("/fuzz.hcl", src)
		if diags.HasErrors() {
			return
		}
		for i := range c.Document.Pipelines {
			for j := range c.Document.Pipelines[i].Modules {
				m := &c.Document.Pipelines[i].Modules[j]
				m.Model, m.ProfileFile = "", "" // printing makes these absolute
			}
		}
		c.Validate(nil)
		printed := HCL(c.Document)
		again, diags := Parse("/fuzz.hcl", printed)
		if diags.HasErrors() {
			t.Fatalf("%v\n%s", diags, printed)
		}
		assert.Equal(t, string(printed), string(HCL(again.Document)))
	})
}

func FuzzReadProfile(f *testing.F) {
	f.Add([]byte(profileCSV))
	f.Add([]byte("hardware,batch,duration_ms,memory_mib\n# note\nv100,1,2,3\nv100,2,1,\n"))
	f.Add([]byte("hardware,batch,duration_ms,spread_ms,others_cores\ncpu,1,2,0.25,\ncpu,2,3,,1.5\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		points, diags := files.ReadProfile("p.csv", src)
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Start.Line < 1 {
				t.Fatalf("finding without a place: %v", d)
			}
		}
		if diags.HasErrors() || len(points) == 0 {
			return
		}
		again, diags := files.ReadProfile("p.csv", pipelines.Profile{Points: points}.CSV())
		if len(again) != len(points) {
			t.Fatalf("%d points came back as %d: %v", len(points), len(again), diags)
		}
	})
}

func TestAProfileKeepsItsNoise(t *testing.T) {
	points, diags := files.ReadProfile("p.csv", []byte("hardware,batch,duration_ms,spread_ms,others_cores\ncpu,1,2,0.25,\ncpu,2,3,,1.5\n"))
	require.Empty(t, diags)
	require.Equal(t, []pipelines.Point{
		{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 2 * time.Millisecond, Spread: 250 * time.Microsecond},
		{Hardware: "cpu", Batch: 2, Concurrency: 1, Duration: 3 * time.Millisecond, Others: 1.5},
	}, points)
	again, diags := files.ReadProfile("p.csv", pipelines.Profile{Points: points}.CSV())
	require.Empty(t, diags)
	require.Equal(t, points, again)

	_, diags = files.ReadProfile("p.csv", []byte("hardware,batch,duration_ms,spread_ms,others_cores\ncpu,1,2,-1,-2\ncpu,2,3,much,\n"))
	require.Len(t, diags, 3)
	for i, at := range []string{"p.csv:2,9", "p.csv:2,12", "p.csv:3,9"} {
		assert.Contains(t, diags[i].Error(), at)
	}
}

func ExampleHCL() {
	p, err := build.New("traffic").SLO(400*time.Millisecond).Rate(10).
		Input("frame", "FP32", 3, 96, 96).
		Module(build.Profiled("detect", pipelines.Point{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 20 * time.Millisecond}).In("image", build.FromInput("frame"))).
		Output("map", build.From("detect", "map")).
		Build()
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(HCL(pipelines.Document{Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.05}}, Pipelines: []pipelines.Pipeline{p}})))
	// Output:
	// hardware "cpu" {
	//   price = 0.05
	// }
	//
	// pipeline "traffic" {
	//   slo  = "400ms"
	//   rate = 10
	//
	//   input "frame" {
	//     datatype = "FP32"
	//     shape    = [3, 96, 96]
	//   }
	//
	//   module "detect" {
	//     inputs = { image = input.frame }
	//   }
	//
	//   output "map" {
	//     value = module.detect.map
	//   }
	// }
}

func TestBuilderFindsMistakes(t *testing.T) {
	_, err := build.New("no name").Module(build.Step("a", "f").In("x", build.From("b", "y"))).Module(build.Step("a", "f")).Build()
	assert.ErrorContains(t, err, `"no name" cannot name a pipeline`)
	assert.ErrorContains(t, err, `module "a" is declared twice`)
	_, err = build.New("p").SLO(time.Second).Input("x", "FP32").Module(build.Step("a", "f").In("x", build.From("b", "y"))).Output("o", build.From("a", "z")).Build()
	assert.ErrorContains(t, err, `no module "b"`)
	for most, want := range map[int]string{-1: "from 1 to 65536", 1: "1.8 requests per upstream request on average are more than 1 at most", 65537: "from 1 to 65536"} {
		_, err = build.New("p").SLO(time.Second).Rate(1).Input("x", "FP32", -1).
			Module(build.Profiled("a", pipelines.Point{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 1}).In("x", build.FromInput("x")).FanoutAtMost(1.8, most)).
			Output("o", build.From("a", "z")).Build()
		assert.ErrorContains(t, err, want)
	}
}
