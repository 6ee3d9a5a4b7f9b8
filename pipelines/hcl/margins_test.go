package hcl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const marginHCL = `hardware "cpu" { price = 1 }

pipeline "p" {
  slo  = "100ms"
  rate = 10
  MARGIN
  input "x" {
    datatype = "FP32"
    shape    = [1]
  }
  module "m" {
    inputs = { x = input.x }
  }
  output "y" { value = module.m.y }
}
`

func parseMargin(t *testing.T, line string) (*Config, string) {
	t.Helper()
	c, diags := Parse("p.hcl", []byte(strings.Replace(marginHCL, "MARGIN", line, 1)))
	diags = append(diags, c.Validate(nil)...)
	return c, diags.Error()
}

func TestHeadroomIsReadAndPrinted(t *testing.T) {
	for line, want := range map[string]float64{`headroom = "10%"`: 0.1, `headroom = "12.5 %"`: 0.125, `headroom = 0.2`: 0.2, `headroom = "0%"`: 0} {
		c, _ := parseMargin(t, line)
		require.Len(t, c.Document.Pipelines, 1, line)
		p := c.Document.Pipelines[0]
		require.NotNil(t, p.Headroom, line)
		assert.InDelta(t, want, *p.Headroom, 1e-12, line)
		again, diags := Parse("p.hcl", HCL(c.Document))
		require.False(t, diags.HasErrors(), diags)
		assert.Equal(t, p.Headroom, again.Document.Pipelines[0].Headroom, line)
	}
	c, _ := parseMargin(t, "")
	assert.Nil(t, c.Document.Pipelines[0].Headroom)
}

func TestHeadroomThatIsNone(t *testing.T) {
	for _, line := range []string{`headroom = "100%"`, `headroom = 1`, `headroom = "-5%"`, `headroom = -0.1`, `headroom = "10"`, `headroom = "much"`, `headroom = "NaN%"`, `headroom = [1]`} {
		_, found := parseMargin(t, line)
		assert.Contains(t, found, "Invalid headroom", line)
		assert.Contains(t, found, "p.hcl:6,14", line)
	}
}

func TestAttainmentByDefault(t *testing.T) {
	for line, want := range map[string]float64{
		"":                       pipelines.DefaultAttainment,
		`arrivals = "even"`:      0,
		`arrivals = "poisson"`:   pipelines.DefaultAttainment,
		`arrivals = "gamma:0.1"`: pipelines.DefaultAttainment,
		"arrivals = \"poisson\"\n  attainment = 0":    0,
		"arrivals = \"poisson\"\n  attainment = 0.95": 0.95,
	} {
		c, _ := parseMargin(t, line)
		p := c.Document.Pipelines[0]
		assert.Equal(t, want, p.Target(), line)
		again, diags := Parse("p.hcl", HCL(c.Document))
		require.False(t, diags.HasErrors(), diags)
		assert.Equal(t, p.Attainment, again.Document.Pipelines[0].Attainment, line)
	}
	_, found := parseMargin(t, "attainment = -1")
	assert.Contains(t, found, "Invalid attainment")
	assert.Contains(t, found, "p.hcl:6,16")
}

// A module on file without a spread keeps nothing back; what was measured does.
func TestKeptFollowsTheProfiles(t *testing.T) {
	at := func(d, spread time.Duration) pipelines.Profile {
		return pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: d, Spread: spread}}}
	}
	given := pipelines.Module{Name: "given", ProfileFile: "p.csv", Model: "m.onnx", Profile: at(10*time.Millisecond, 0)}
	calm := pipelines.Module{Name: "calm", Model: "m.onnx", Profile: at(10*time.Millisecond, 0)}
	noisy := pipelines.Module{Name: "noisy", ProfileFile: "p.csv", Profile: at(10*time.Millisecond, 5*time.Millisecond)}
	step := pipelines.Module{Name: "step", Function: "crop", Profile: at(time.Microsecond, time.Millisecond)}
	for _, c := range []struct {
		modules        []pipelines.Module
		kept, quantile float64
	}{
		{[]pipelines.Module{given}, 0, 0},
		{[]pipelines.Module{calm}, pipelines.DefaultHeadroom, 0},
		{[]pipelines.Module{given, calm}, pipelines.DefaultHeadroom, 0},
		{[]pipelines.Module{noisy}, 0, pipelines.MeasuredQuantile},
		{[]pipelines.Module{given, step}, 0, pipelines.MeasuredQuantile},
	} {
		p := pipelines.Pipeline{SLO: time.Second, Modules: c.modules}
		assert.Equal(t, c.kept, p.Kept())
		assert.Equal(t, c.quantile, p.Quantile())
	}
	p := pipelines.Pipeline{SLO: time.Second, Modules: []pipelines.Module{noisy}}
	assert.Equal(t, 15*time.Millisecond, p.Planned().Modules[0].Profile.Points[0].Duration)
	assert.Equal(t, 10*time.Millisecond, p.Modules[0].Profile.Points[0].Duration)
	p.SLO = 11 * time.Millisecond
	assert.Zero(t, p.Quantile(), "the objective leaves no room for it")
	assert.Equal(t, pipelines.DefaultHeadroom, p.Kept())
	declared := 0.2
	p.SLO, p.Headroom = time.Second, &declared
	assert.Zero(t, p.Quantile(), "what is declared holds")
	assert.Equal(t, declared, p.Kept())
}
