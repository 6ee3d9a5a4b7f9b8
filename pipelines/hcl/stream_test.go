package hcl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const filmed = `hardware "gpu" {
  price = 1
}

pipeline "crossing" {
  slo      = "300ms"
  arrivals = "even"

  stream {
    rate   = 10
    count  = 40
    jitter = "20ms"
    stale  = "newest"
  }

  input "frame" {
    datatype = "FP32"
    shape    = [3]
  }

  module "detect" {
    profile = "p.csv"
    inputs  = { image = input.frame }
  }

  output "boxes" {
    value = module.detect.boxes
  }
}
`

func TestStreamsAreReadAndPrinted(t *testing.T) {
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": filmed, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	p := c.Document.Pipelines[0]
	assert.Equal(t, pipelines.Stream{Rate: 10, Count: 40, Jitter: 20 * time.Millisecond, Stale: pipelines.StaleNewest}, p.Stream)
	assert.InDelta(t, 400, p.Rate, 0)
	assert.Equal(t, 40, p.Streams())
	assert.False(t, p.ComeSingly())
	c.Document.Pipelines[0].Modules[0].ProfileFile = "p.csv"
	assert.Equal(t, filmed, string(HCL(c.Document)))
}

func TestWhatIsWrongWithStreams(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"two rates":        {"  slo ", "  rate     = 400\n  slo ", "6:14: error: Two rates"},
		"random":           {`"even"`, `"poisson"`, "7:14: error: Arrivals beside streams"},
		"no rate":          {"    rate   = 10\n", "", "9:3: error: Invalid rate"},
		"no count":         {"    count  = 40\n", "", "9:3: error: Invalid number of streams"},
		"jitter":           {"20ms", "100ms", "12:14: error: Invalid jitter"},
		"rule":             {"newest", "newst", `13:14: error: Unknown rule: stale is which frame is dropped where not all can be in time: "oldest", "newest" or "alternate". Did you mean "newest"?`},
		"phases":           {`    stale  = "newest"`, `    phases = "chose"`, `13:14: error: Unknown phases`},
		"several":          {"  input ", "  stream {\n    rate = 5\n    count = 1\n  }\n\n  input ", "16:3: error: "},
		"neither":          {"  stream {\n    rate   = 10\n    count  = 40\n    jitter = \"20ms\"\n    stale  = \"newest\"\n  }\n", "", `Missing required argument: The argument "rate" is required`},
		"nothing declared": {"    rate   = 10\n    count  = 40\n    jitter = \"20ms\"\n    stale  = \"newest\"\n", "", "9:3: error: Invalid rate"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, filmed, test.from)
			c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": strings.Replace(filmed, test.from, test.to, 1), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
			var found []string
			for _, f := range Findings(append(diags, c.Validate(nil)...)) {
				found = append(found, f.String())
			}
			assert.Contains(t, strings.Join(found, "\n"), test.want)
		})
	}
}
