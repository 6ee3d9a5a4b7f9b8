package hcl

import (
	"os"
	"path/filepath"
	"strings"
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

const ranking = `hardware "gpu" {
  price = 0.5
}

hardware "cpu" {
  price = 0.15
}

pool "ranking" {
  profile  = "latency.csv"
  sizes    = "sizes.csv"
  slo      = "100ms"
  budget   = 2
  base     = "gpu"
  hardware = ["gpu", "cpu"]
}
`

const latencyCSV = "hardware,batch,duration_ms\ngpu,1,5\ngpu,100,20\ngpu,200,40\ncpu,1,2\ncpu,100,60\ncpu,200,130\n"

const sizesCSV = "size,weight\n10,3\n150,1\n200,0.5\n"

func loadPool(t *testing.T, files map[string]string) (string, []Finding) {
	t.Helper()
	all := map[string]string{"a.hcl": ranking, "latency.csv": latencyCSV, "sizes.csv": sizesCSV}
	for name, text := range files {
		all[name] = text
	}
	dir := folder(t, all)
	c, diags := Load(LoadOptions{}, dir)
	return dir, Findings(append(diags, c.Validate(nil)...))
}

func TestLoadPool(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": ranking, "latency.csv": latencyCSV, "sizes.csv": sizesCSV})
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	require.Len(t, c.Document.Pools, 1)
	p := c.Document.Pools[0]
	assert.Len(t, p.Profile.Points, 6)
	p.Profile = pipelines.Profile{}
	assert.Equal(t, pipelines.Pool{
		Name: "ranking", SLO: 100 * time.Millisecond, Budget: 2, Base: "gpu", Hardware: []string{"gpu", "cpu"},
		ProfileFile: filepath.Join(dir, "latency.csv"), SizesFile: filepath.Join(dir, "sizes.csv"),
		Sizes: pipelines.Mix{{Size: 10, Weight: 3}, {Size: 150, Weight: 1}, {Size: 200, Weight: 0.5}},
	}, p)
	printed := HCL(c.Document)
	assert.Equal(t, ranking, strings.ReplaceAll(string(printed), dir+string(filepath.Separator), ""))
}

// TestPoolFindings feeds declarations with one mistake each and looks for the
// finding at its place.
func TestPoolFindings(t *testing.T) {
	change := func(old, with string) map[string]string {
		return map[string]string{"a.hcl": strings.Replace(ranking, old, with, 1)}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"fine":                {nil, ""},
		"no list of hardware": {change(`hardware = ["gpu", "cpu"]`, ""), ""},
		"poisson":             {change(`base     =`, "arrivals = \"poisson\"\nbase ="), ""},
		"budget below base":   {change("= 2\n", "= 0.4\n"), `a.hcl:13:14: error: Budget too small: A pool has at least one instance of its base, and "gpu" costs 0.5 an hour`},
		"no budget":           {change("= 2\n", "= 0\n"), "a.hcl:13:14: error: Invalid budget"},
		"slo":                 {change(`"100ms"`, `"0s"`), "a.hcl:12:14: error: Invalid objective"},
		"unit":                {change(`"100ms"`, `"100"`), "a.hcl:12:14: error: Wrong unit"},
		"base too slow":       {change(`base     = "gpu"`, `base     = "cpu"`), `a.hcl:14:14: error: SLO cannot be met: SLO 100ms cannot be met at every size: a query of size 200 takes 130 ms on the base "cpu"`},
		"base misspelled":     {change(`base     = "gpu"`, `base     = "gpux"`), `a.hcl:14:14: error: Base outside the pool: The base "gpux" is not in the list of hardware. Did you mean "gpu"?`},
		"hardware misspelled": {change(`"cpu"]`, `"cpuu"]`), `a.hcl:15:14: error: Unknown hardware: No hardware block declares "cpuu". Did you mean "cpu"?`},
		"hardware twice":      {change(`"cpu"]`, `"gpu"]`), "a.hcl:15:14: error: Declared twice"},
		"arrivals":            {change(`base     =`, "arrivals = \"bursts\"\nbase ="), "a.hcl:14:14: error: Invalid arrivals"},
		"trace":               {change(`base     =`, "arrivals = \"trace:x.csv\"\nbase ="), "a.hcl:14:14: error: Invalid arrivals"},
		"unknown attribute":   {change(`base     =`, "bases = 1\nbase ="), "a.hcl:14:3: error: Unsupported argument"},
		"two pools":           {map[string]string{"b.hcl": ranking[strings.Index(ranking, "pool"):]}, `b.hcl:1:1: error: Declared twice: The pool "ranking" is declared already`},
		"no sizes":            {change(`"sizes.csv"`, `"none.csv"`), "a.hcl:11:14: error: Missing sizes"},
		"sizes left out":      {change(`sizes    = "sizes.csv"`, ""), "a.hcl:9:1: warning: Sizes not known: Without a file of sizes all measured sizes that the base \"gpu\" serves in time"},
		"no size in time":     {change("sizes    = \"sizes.csv\"\n  slo      = \"100ms\"", "slo = \"3ms\""), "error: SLO cannot be met: SLO 3ms cannot be met at any size: a query of size 1 takes 5 ms"},
		"no profile":          {change(`"latency.csv"`, `"none.csv"`), "a.hcl:10:14: error: Missing profile"},
		"gap":                 {map[string]string{"latency.csv": "hardware,batch,duration_ms\ngpu,1,5\ngpu,200,40\n"}, `a.hcl:10:14: error: Gap in the profile: The pool may have "cpu"`},
		"beyond the base":     {map[string]string{"sizes.csv": "size,weight\n10,3\n201,1\n"}, `sizes.csv:3:1: error: Size beyond the profile: Queries have up to 201 items, but the profile of the base "gpu" ends at 200`},
		"beyond another":      {map[string]string{"latency.csv": strings.Replace(latencyCSV, "cpu,200,130\n", "", 1)}, `sizes.csv:4:1: warning: Size beyond the profile`},
		"negative weight":     {map[string]string{"sizes.csv": "size,weight\n10,3\n20,-1\n"}, "sizes.csv:3:4: error: Negative weight: Size 20 has the weight -1"},
		"size twice":          {map[string]string{"sizes.csv": "size,weight\n10,3\n10,1\n"}, "sizes.csv:3:1: error: Size given twice: Size 10 stands already in line 2"},
		"size of zero":        {map[string]string{"sizes.csv": "size,weight\n0,3\n10,1\n"}, "sizes.csv:2:1: error: Not a whole number"},
		"not a number":        {map[string]string{"sizes.csv": "size,weight\n10,many\n"}, "sizes.csv:2:4: error: Not a number"},
		"no weight":           {map[string]string{"sizes.csv": "size,weight\n10,0\n"}, "error: No queries"},
		"no header":           {map[string]string{"sizes.csv": "10,1\n"}, "sizes.csv:1:1: error: Missing column"},
		"empty":               {map[string]string{"sizes.csv": ""}, "sizes.csv:1:1: error: Empty file of sizes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, found := loadPool(t, c.files)
			var lines []string
			for _, f := range found {
				lines = append(lines, strings.TrimPrefix(f.String(), dir+string(filepath.Separator)))
			}
			all := strings.Join(lines, "\n")
			if c.want == "" {
				assert.Empty(t, all)
				return
			}
			assert.Contains(t, all, c.want)
			assert.Len(t, found, 1, all)
		})
	}
}

func TestReadSizesFindsAll(t *testing.T) {
	_, diags := files.ReadSizes("s.csv", []byte("weight,size,note\n1,10,a\n-1,20,b\nx,30,c\n2,10,d\n3,1000000,e\n"))
	assert.Len(t, diags, 4)
	mix, diags := files.ReadSizes("s.csv", []byte("\xef\xbb\xbfSize, Weight\n# a comment\n200, 1\n100, 3\n"))
	require.Empty(t, diags)
	assert.Equal(t, pipelines.Mix{{Size: 100, Weight: 3}, {Size: 200, Weight: 1}}, mix)
	assert.Equal(t, 125.0, mix.Mean())
	assert.Equal(t, 200, mix.Largest())
}

func TestLatency(t *testing.T) {
	points, diags := files.ReadProfile("p.csv", []byte(latencyCSV))
	require.Empty(t, diags)
	l := pipelines.Profile{Points: points}.Latency("gpu")
	for size, want := range map[int]time.Duration{
		1: 5 * time.Millisecond, 100: 20 * time.Millisecond, 150: 30 * time.Millisecond, 200: 40 * time.Millisecond,
		250: 50 * time.Millisecond, // the line goes on
	} {
		assert.Equal(t, want, l.At(size), size)
	}
	assert.Equal(t, 5*time.Millisecond, l[:1].At(9), "one point says nothing of others")
	assert.Zero(t, pipelines.Latency{}.At(1))
	size, late := pipelines.Profile{Points: points}.Latency("cpu").Violates(pipelines.Mix{{Size: 10, Weight: 1}, {Size: 150, Weight: 1}, {Size: 160, Weight: 0}, {Size: 200, Weight: 1}}, 94*time.Millisecond)
	assert.Equal(t, 150, size)
	assert.True(t, late)
}

// drawPool draws a pool such as the builder makes.
func drawPool(t *rapid.T) pipelines.Pool {
	b := build.NewPool(rapid.StringMatching(`[a-z][a-z0-9_.-]{0,8}`).Draw(t, "name")).
		SLO(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "slo"))).
		Budget(rapid.Float64Range(1e-9, 1e9).Draw(t, "budget")).
		Arrivals(rapid.SampledFrom([]string{"", "even", "poisson", "gamma:2"}).Draw(t, "arrivals")).
		Base(rapid.StringMatching(`[a-z"$%{}é.]{1,9}`).Draw(t, "base"))
	if rapid.Bool().Draw(t, "list") {
		b.On(rapid.SliceOfN(rapid.StringMatching(`[a-z0-9.]{1,9}`), 1, 4).Draw(t, "hardware")...)
	}
	p, _ := b.Build() // what is wrong with it does not matter here
	return p
}

func TestPoolRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := pipelines.Document{Pools: []pipelines.Pool{drawPool(t)}}
		src := HCL(doc)
		c, _ := Parse("a.hcl", src)
		doc.Pools[0].SizesFile = "" // a builder has no files, which reading reports
		require.Equal(t, doc, c.Document, "%s", src)
		require.Equal(t, string(src), string(HCL(c.Document)))
	})
}

func TestMixRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m pipelines.Mix
		for i := range rapid.IntRange(1, 20).Draw(t, "sizes") {
			m = append(m, pipelines.Size{Size: 1 + i*7, Weight: rapid.Float64Range(0, 1e9).Draw(t, "weight")})
		}
		m[0].Weight++
		back, diags := files.ReadSizes("s.csv", m.CSV())
		require.Empty(t, diags)
		require.Equal(t, m, back)
	})
}

func TestPoolBuilder(t *testing.T) {
	points := []pipelines.Point{{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: time.Millisecond}, {Hardware: "gpu", Batch: 50, Concurrency: 1, Duration: 3 * time.Millisecond}}
	p, err := build.NewPool("ranking").SLO(5*time.Millisecond).Budget(1).Base("gpu").Profile(points...).Sizes(pipelines.Size{Size: 50, Weight: 1}, pipelines.Size{Size: 10, Weight: 2}).Build()
	require.NoError(t, err)
	assert.Equal(t, pipelines.Mix{{Size: 10, Weight: 2}, {Size: 50, Weight: 1}}, p.Sizes)

	_, err = build.NewPool("a b").Sizes(pipelines.Size{Size: 0, Weight: 1}, pipelines.Size{Size: 5, Weight: -1}, pipelines.Size{Size: 5, Weight: 1}).Build()
	for _, want := range []string{`"a b" cannot name`, "not 0", "weight -1", "given twice"} {
		assert.ErrorContains(t, err, want)
	}
	_, err = build.NewPool("ranking").Base("cpu").Profile(points...).Sizes(pipelines.Size{Size: 60, Weight: 1}).Build()
	for _, want := range []string{"SLO must be above zero", "Invalid budget", "No hardware block declares \"cpu\""} {
		assert.ErrorContains(t, err, want)
	}
	_, err = build.NewPool("ranking").SLO(2 * time.Millisecond).Budget(1).Base("gpu").Profile(points...).Sizes(pipelines.Size{Size: 50, Weight: 1}).Build()
	assert.ErrorContains(t, err, "SLO 2ms cannot be met at every size")
}

func FuzzSizes(f *testing.F) {
	for _, s := range []string{sizesCSV, "", "size,weight\n", "size,weight\n1,-1", "weight,size\n1e400,3\n", "size,weight\n\"1\n,"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		m, diags := files.ReadSizes("s.csv", src)
		for _, d := range diags {
			require.NotNil(t, d.Subject)
			require.GreaterOrEqual(t, d.Subject.Start.Line, 1)
		}
		if diags.HasErrors() {
			return
		}
		require.Positive(t, m.Total())
		back, diags := files.ReadSizes("s.csv", m.CSV())
		require.Empty(t, diags)
		require.Equal(t, m, back)
	})
}

func FuzzPool(f *testing.F) {
	f.Add([]byte(ranking))
	f.Add([]byte("pool \"x\" { budget = -1 }"))
	f.Add([]byte(strings.Replace(ranking, "slo ", "plan { policy = \"kairos\" }\n slo ", 1)))
	dir := f.TempDir()
	for name, text := range map[string]string{"latency.csv": latencyCSV, "sizes.csv": sizesCSV} {
		require.NoError(f, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		c, diags := Parse(filepath.Join(dir, "a.hcl"), src)
		found := append(diags, c.Validate(nil)...)
		if found.HasErrors() {
			return
		}
		again, diags := Parse(filepath.Join(dir, "a.hcl"), HCL(c.Document))
		require.False(t, diags.HasErrors(), "%v", diags)
		require.Equal(t, c.Document, again.Document)
	})
}
