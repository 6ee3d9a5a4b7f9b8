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

// mixed has streams of two rates.
var mixed = strings.Replace(filmed, `  stream {
    rate   = 10
    count  = 40
    jitter = "20ms"
    stale  = "newest"
  }
`, `  stream "fast" {
    rate   = 25
    count  = 8
    jitter = "5ms"
  }

  stream "slow" {
    rate  = 5
    count = 32
  }
`, 1)

func TestStreamsOfSeveralKindsAreReadAndPrinted(t *testing.T) {
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": mixed, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	p := c.Document.Pipelines[0]
	assert.True(t, p.Stream.IsZero())
	assert.Equal(t, []pipelines.Stream{{Kind: "fast", Rate: 25, Count: 8, Jitter: 5 * time.Millisecond}, {Kind: "slow", Rate: 5, Count: 32}}, p.Kinds)
	assert.InDelta(t, 360, p.Rate, 0)
	assert.Equal(t, 40, p.Streams())
	c.Document.Pipelines[0].Modules[0].ProfileFile = "p.csv"
	assert.Equal(t, mixed, string(HCL(c.Document)))
	asJSON := `{"hardware": {"gpu": {"price": 1}}, "pipeline": {"crossing": {"slo": "300ms", "stream": STREAM,
		"input": {"frame": {"datatype": "FP32", "shape": [3]}}, "module": {"detect": {"profile": "p.csv", "inputs": {"image": "${input.frame}"}}},
		"output": {"boxes": {"value": "${module.detect.boxes}"}}}}}`
	for stream, want := range map[string][]pipelines.Stream{
		`{"fast": {"rate": 25, "count": 8}, "slow": {"rate": 5, "count": 2}}`: {{Kind: "fast", Rate: 25, Count: 8}, {Kind: "slow", Rate: 5, Count: 2}},
		`{"rate": 25, "count": 8}`: {{Rate: 25, Count: 8}},
	} {
		c, diags = Load(LoadOptions{}, folder(t, map[string]string{"a.hcl.json": strings.Replace(asJSON, "STREAM", stream, 1), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
		require.Empty(t, diags, stream)
		require.Empty(t, c.Validate(nil))
		assert.Equal(t, want, c.Document.Pipelines[0].StreamKinds())
	}
}

func TestWhatIsWrongWithKindsOfStreams(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"two of one name": {`"slow"`, `"fast"`, `15:3: error: Declared twice: The stream "fast" is declared already`},
		"one without":     {`stream "slow"`, "stream", "15:10: error: Missing name for stream"},
		"no name":         {`"slow"`, `"so slow"`, `15:10: error: Invalid name: "so slow" cannot name a stream`},
		"two names":       {`"slow"`, `"slow" "er"`, "15:17: error: Extraneous label for stream"},
		"jitter":          {`"5ms"`, `"40ms"`, "12:14: error: Invalid jitter"},
		"no count":        {"    count = 32\n", "", "15:3: error: Invalid number of streams"},
		"rule":            {"    count = 32\n", "    count = 32\n    stale = \"new\"\n", "18:13: error: Unknown rule"},
		"too many":        {"count = 32", "count = 1000001", "17:13: error: Invalid number of streams"},
		"a rate, too":     {"  slo ", "  rate = 3\n  slo ", "6:10: error: Two rates"},
		"nothing":         {"    rate  = 5\n    count = 32\n", "", "15:3: error: Invalid rate"},
		"random":          {`"even"`, `"poisson"`, "7:14: error: Arrivals beside streams"},
		"weight":          {"    count = 32\n", "    count = 32\n    weight = -2\n", "18:14: error: Invalid weight"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, mixed, test.from)
			c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": strings.Replace(mixed, test.from, test.to, 1), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
			var found []string
			for _, f := range Findings(append(diags, c.Validate(nil)...)) {
				found = append(found, f.String())
			}
			assert.Contains(t, strings.Join(found, "\n"), test.want)
		})
	}
}

// Streams that come and go are so many that one finds a place with the given probability.
func TestStreamsThatComeAndGo(t *testing.T) {
	text := strings.Replace(filmed, "    count  = 40\n    jitter = \"20ms\"\n    stale  = \"newest\"\n", "    opening  = 0.5\n    length   = \"20s\"\n    admitted = 0.95\n", 1)
	text = strings.Replace(text, "    rate   = 10\n", "    rate     = 10\n", 1)
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": text, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	p := c.Document.Pipelines[0]
	assert.Equal(t, pipelines.Stream{Rate: 10, Count: 15, Opening: 0.5, Length: 20 * time.Second, Admitted: 0.95}, p.Stream)
	assert.InDelta(t, 150, p.Rate, 0)
	c.Document.Pipelines[0].Modules[0].ProfileFile = "p.csv"
	assert.Equal(t, text, string(HCL(c.Document)))
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
		"two counts":       {"    stale ", "    opening = 0.5\n    length = \"20s\"\n    stale ", "11:14: error: Two counts"},
		"no length":        {"    count  = 40\n", "    opening = 0.5\n", "9:3: error: Invalid length: length is how long"},
		"a wrong length":   {"    count  = 40\n", "    opening = 0.5\n    length = \"-1s\"\n", "12:14: error: Invalid"},
		"no openings":      {"    count  = 40\n", "    count = 4\n    length = \"1s\"\n", "12:14: error: No rate of streams"},
		"all admitted":     {"    count  = 40\n", "    opening = 0.5\n    length = \"20s\"\n    admitted = 1\n", "13:16: error: Invalid share"},
		"too many":         {"    count  = 40\n", "    opening = 5e5\n    length = \"20s\"\n", "11:15: error: Invalid rate"},
		"several":          {"  input ", "  stream {\n    rate = 5\n    count = 1\n  }\n\n  input ", `; of several each has a name: stream "cameras" { ... }.`},
		"one with a name":  {"  input ", "  stream \"slow\" {\n    rate = 5\n    count = 1\n  }\n\n  input ", "9:10: error: Missing name for stream"},
		"weight of one":    {"    count  = 40\n", "    count = 40\n    weight = 2\n", "12:14: error: Weight without another kind"},
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

// tracking is a tracker behind what finds things on the frames of streams.
const tracking = `hardware "gpu" {
  price = 1
}

pipeline "crossing" {
  slo = "300ms"

  stream {
    rate  = 10
    count = 4
  }

  input "frame" {
    datatype = "FP32"
    shape    = [3]
  }

  module "detect" {
    profile = "p.csv"
    inputs  = { image = input.frame }
  }

  module "track" {
    profile = "p.csv"
    inputs  = { boxes = module.detect.boxes }
    state   = true
  }

  output "ids" {
    value = module.track.ids
  }
}
`

func TestStateIsReadAndPrinted(t *testing.T) {
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": tracking, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	assert.True(t, c.Document.Pipelines[0].Modules[1].State)
	assert.Contains(t, string(HCL(c.Document)), "state   = true")

	pairs := `state   = { h = "next", "past:0" = "present:0" }`
	c, diags = Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": strings.Replace(tracking, "state   = true", pairs, 1), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	track := c.Document.Pipelines[0].Modules[1]
	assert.True(t, track.State)
	assert.Equal(t, map[string]string{"h": "next", "past:0": "present:0"}, track.Loops)
	again, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": string(HCL(c.Document)), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	assert.Equal(t, track.Loops, again.Document.Pipelines[0].Modules[1].Loops)
}

func TestWhatIsWrongWithState(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"no streams":    {"  stream {\n    rate  = 10\n    count = 4\n  }\n", "  rate = 10\n", `23:15: error: State without streams: State is kept between the frames of a stream, and pipeline "crossing" has no stream block: add one, or take state out.`},
		"a function":    {"    profile = \"p.csv\"\n    inputs  = { boxes", "    function = \"crop\"\n    inputs  = { boxes", `26:15: error: State of a function`},
		"an engine":     {"    state ", "    engine = \"gorgonia\"\n    state ", `27:15: error: State without an engine for it: The engine "gorgonia" keeps no state between frames; onnxruntime, onnxruntime-cuda, onnxruntime-tensorrt, remote, process and emulated do.`},
		"items":         {"    state ", "    fanout = 2\n    state ", `27:15: error: State of a part of a frame`},
		"below items":   {"    inputs  = { image = input.frame }\n", "    inputs  = { image = input.frame }\n    fanout = 3\n", `27:15: error: State of a part of a frame`},
		"gathered":      {"    inputs  = { image = input.frame }\n  }", "    inputs  = { image = input.frame }\n    fanout = 3\n  }\n  module \"all\" {\n    profile = \"p.csv\"\n    inputs  = { x = module.detect.boxes }\n    gather = true\n    state = true\n  }", `33:15: error: State of a part of a frame`},
		"variants":      {"    state ", "    accuracy = 0.9\n    variant \"small\" {\n      profile = \"p.csv\"\n      accuracy = 0.8\n    }\n    state ", `31:15: error: State of variants`},
		"too slow":      {"rate  = 10", "rate  = 100", `26:15: error: State that comes too late: A frame has to be answered by "track" before the next of its stream may come, within 10 ms (1/rate less the jitter), and its fastest configuration takes 10 ms`},
		"a cluster":     {"pipeline \"crossing\"", "cluster \"all\" {\n  hardware = \"gpu\"\n  pipelines = [\"crossing\"]\n}\n\npipeline \"crossing\"", `State in a cluster`},
		"no word of it": {"state   = true", "state   = 3", `26:15: error`},
		"no pairs":      {"state   = true", "state   = {}", `26:15: error`},
		"no output":     {"state   = true", "state   = { h = 3 }", `26:15: error`},
		"fed, too":      {"state   = true", "state   = { boxes = \"next\" }", `26:15: error: Fed twice: The input "boxes" is state and stands in inputs, too`},
		"one for two":   {"state   = true", "state   = { c = \"next\", h = \"next\" }", `26:15: error: Fed twice: The output "next" goes back to both "c" and "h"`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, tracking, test.from)
			c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": strings.Replace(tracking, test.from, test.to, 1), "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
			var found []string
			for _, f := range Findings(append(diags, c.Validate(nil)...)) {
				found = append(found, f.String())
			}
			assert.Contains(t, strings.Join(found, "\n"), test.want)
		})
	}
}

// What is known of a network reports whether its state goes round.
func TestStateThatDoesNotGoRound(t *testing.T) {
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": tracking, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
	require.Empty(t, diags)
	of := func(loop string) func(pipelines.Module) (pipelines.Signature, error) {
		return func(m pipelines.Module) (pipelines.Signature, error) {
			if m.Name == "detect" {
				return pipelines.Signature{}, nil
			}
			return pipelines.Signature{
				Inputs:  []pipelines.Port{{Name: "boxes"}, {Name: "h", Datatype: "FP32", Shape: []int64{8}, Loop: loop}},
				Outputs: []pipelines.Port{{Name: "ids"}, {Name: "z"}},
			}, nil
		}
	}
	require.Empty(t, c.Validate(of("z")), "nobody feeds what goes round")
	var found []string
	for _, f := range Findings(c.Validate(of(""))) {
		found = append(found, f.String())
	}
	text := strings.Join(found, "\n")
	assert.Contains(t, text, `26:15: error: No state found: The model of "track" has no input that one of its outputs is fed back to: it has the inputs "boxes", "h" and the outputs "ids", "z"`)
	assert.Contains(t, text, `needs an input "h", which nothing feeds`)
	c.Document.Pipelines[0].Modules[1].Loops = map[string]string{"h": "next"}
	assert.Contains(t, c.Validate(of("z")).Error(), `it has no input "h" with an output "next" of the same datatype`)
}

// What is drawn on frames is read, checked where it stands, and printed.
func TestOverlaysAreReadAndPrinted(t *testing.T) {
	drawn := strings.NewReplacer("shape    = [3]", "shape    = [3, 96, 96]", "  input \"frame\"", `  overlay {
    frame   = "frame"
    boxes   = "boxes"
    corners = "xywh"
    unit    = "fractions"
    labels  = ["boxes"]
    console = true
  }

  input "frame"`).Replace(filmed)
	read := func(text string) (*Config, string) {
		c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": text, "p.csv": "hardware,batch,duration_ms\ngpu,1,10\n"}))
		require.Empty(t, diags)
		return c, c.Validate(nil).Error()
	}
	c, _ := read(drawn)
	require.Empty(t, c.Validate(nil))
	assert.Equal(t, pipelines.Overlay{Frame: "frame", Boxes: "boxes", Corners: "xywh", Unit: "fractions", Labels: []string{"boxes"}, Console: true}, c.Document.Pipelines[0].Overlay)
	c.Document.Pipelines[0].Modules[0].ProfileFile = "p.csv"
	assert.Equal(t, drawn, string(HCL(c.Document)))
	_, said := read(strings.Replace(drawn, `corners = "xywh"`, `corners = "xyw"`, 1))
	assert.Contains(t, said, "a.hcl:19,15-20: Unknown corners")
	_, said = read(strings.Replace(drawn, `frame   = "frame"`, `frame   = "fram"`, 1))
	assert.Contains(t, said, `Did you mean "frame"?`)
	_, said = read(strings.Replace(drawn, "    frame   = \"frame\"\n", "", 1))
	assert.Contains(t, said, "a.hcl:16,3-10: No such input; frame is the input that takes pictures")
}
