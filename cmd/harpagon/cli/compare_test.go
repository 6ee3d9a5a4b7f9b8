package cli

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func TestCompareHelp(t *testing.T) {
	for _, args := range [][]string{{"compare"}, {"reproduce"}} {
		got := run(t, append(args, "--help")...)
		assert.Equal(t, ExitOK, got.code)
		assert.Empty(t, got.stderr)
		golden(t, "help/"+strings.Join(args, "-")+".txt", got.stdout)
	}
}

// compared is what the tests read of the JSON.
type compared struct {
	Comparisons []struct {
		Pipeline  string
		CostModel string `json:"cost_model"`
		Best      string
		Cost      float64
		Policies  []struct {
			Policy, Status, Note string
			Sound                bool
			Cost, Ratio          float64
		}
	}
	Together []struct{ Policies []map[string]any }
	Sweeps   []struct {
		Over   string
		X      []float64
		Curves []struct{ Points []map[string]any }
	}
}

func TestCompare(t *testing.T) {
	dir := smallFolder(t, "400ms")
	got := run(t, "compare", dir, "--cost-model", "proportional", "--policy", "exact,harpagon")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Empty(t, got.stderr)
	golden(t, "compare.txt", got.stdout)
}

// TestCompareIsAboutEveryPolicy holds that the table agrees with plan, and that no policy
// is missing.
func TestCompareIsAboutEveryPolicy(t *testing.T) {
	dir := smallFolder(t, "400ms")
	got := run(t, "compare", dir, "--cost-model", strings.Join(plan.CostModels(), ","), "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out compared
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Comparisons, len(plan.CostModels()))
	assert.Empty(t, out.Together, "one pipeline")
	for i, c := range out.Comparisons {
		assert.Equal(t, plan.CostModels()[i], c.CostModel)
		assert.Equal(t, "small", c.Pipeline)
		var names []string
		for _, p := range c.Policies {
			names = append(names, p.Policy)
			if p.Sound {
				assert.GreaterOrEqual(t, p.Ratio, 1-1e-9, "%s, %s", c.CostModel, p.Policy)
			} else {
				assert.NotEmpty(t, p.Note, "%s, %s", c.CostModel, p.Policy)
			}
			var alone Plans
			text := run(t, "plan", dir, "--json", "--policy", p.Policy, "--cost-model", c.CostModel).stdout
			require.NoError(t, json.Unmarshal([]byte(text), &alone))
			assert.InDelta(t, alone.Plans[0].Cost, p.Cost, 1e-9)
		}
		for _, name := range policies.Names() {
			o := plan.Options{Policy: name, CostModel: c.CostModel}
			if policies.Check(o) == nil {
				assert.Contains(t, names, name)
			}
		}
	}
}

func TestCompareSeveralPipelines(t *testing.T) {
	dir := smallFolder(t, "400ms")
	other := strings.Replace(strings.ReplaceAll(small, "%s", "9ms"), `pipeline "small"`, `pipeline "other"`, 1)
	other = other[strings.Index(other, "pipeline"):]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.hcl"), []byte(other), 0o644))
	got := run(t, "compare", dir)
	assert.Equal(t, ExitError, got.code, "one has no plan")
	assert.Empty(t, got.stderr)
	assert.Contains(t, got.stdout, "other at 100 requests per second within 9 ms")
	assert.Contains(t, got.stdout, "No policy found a plan whose promise can be kept")
	assert.Contains(t, got.stdout, "All 2 pipelines planned together")
}

func TestComparePictures(t *testing.T) {
	dir, out := smallFolder(t, "400ms"), t.TempDir()
	svg, image := filepath.Join(out, "a.svg"), filepath.Join(out, "a.png")
	got := run(t, "compare", dir, "--plot", svg, "--points", "6", "--json", "--cost-model", "proportional")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "wrote "+svg)
	assert.Contains(t, got.stderr, "small over slo: ")
	for _, text := range []string{"cost over SLO", "cost over rate", "declared", "exact", "harpagon"} {
		assert.Contains(t, read(t, svg), ">"+text+"<")
	}
	var sweeps compared
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &sweeps))
	require.Len(t, sweeps.Sweeps, 2)
	assert.Len(t, sweeps.Sweeps[0].X, 6)
	assert.Len(t, sweeps.Sweeps[0].Curves[0].Points, 6)

	got = run(t, "compare", dir, "--plot", image, "--points", "4", "--over", "rate", "--policy", "exact")
	require.Equal(t, ExitOK, got.code, got.stderr)
	file, err := os.Open(image)
	require.NoError(t, err)
	defer file.Close()
	_, err = png.Decode(file)
	assert.NoError(t, err)
}

func TestProgressOnATerminal(t *testing.T) {
	got := runWith(t, Deps{Terminal: true}, "compare", smallFolder(t, "400ms"), "--plot", filepath.Join(t.TempDir(), "a.svg"), "--points", "4", "--policy", "exact")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "\r\x1b[Ksmall over slo: 4 of 4")
}

func TestWrongUseOfCompareAndBench(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"compare"}, []string{"name an HCL file or a folder", "harpagon compare --help"}},
		{[]string{"compare", ".", "--policy", "luck"}, []string{`no policy "luck"`, "exact"}},
		{[]string{"compare", ".", "--cost-model", "luck"}, []string{`no cost model "luck"`, "whole"}},
		{[]string{"compare", ".", "--plot", "a.gif"}, []string{"--plot a.gif is no picture", ".svg or .png"}},
		{[]string{"compare", ".", "--over", "rate"}, []string{"add --plot"}},
		{[]string{"compare", ".", "--plot", "a.svg", "--over", "luck"}, []string{"slo or rate"}},
		{[]string{"compare", ".", "--plot", "a.svg", "--points", "1"}, []string{"--points 1 makes no line"}},
		{[]string{"compare", ".", "--time-limit", "0s"}, []string{"leaves no time"}},
		{[]string{"compare", root + "/examples/traffic"}, []string{"harpagon profile"}},
	} {
		got := run(t, c.args...)
		assert.Equal(t, ExitError, got.code, c.args)
		assert.Empty(t, got.stdout, c.args)
		for _, text := range c.says {
			assert.Contains(t, got.stderr, text, c.args)
		}
	}
}

func TestNoHalfPicture(t *testing.T) {
	got := run(t, "compare", smallFolder(t, "400ms"), "--plot", filepath.Join(t.TempDir(), "nowhere", "a.svg"), "--points", "2", "--policy", "exact")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "the picture was not drawn")
}
