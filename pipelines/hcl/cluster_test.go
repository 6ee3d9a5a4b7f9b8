package hcl

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const clustered = `hardware "gpu" {
  price  = 0.5
  memory = "1GiB"
  count  = 8
}

hardware "cpu" {
  price = 0.1
}

pipeline "faces" {
  slo  = "50ms"
  rate = 10

  input "frame" {
    datatype = "FP32"
    shape    = [3]
  }

  module "detect" {
    profile = "p.csv"
    inputs  = { image = input.frame }
  }

  output "faces" {
    value = module.detect.faces
  }
}

cluster "vision" {
  hardware  = "gpu"
  devices   = { min = 2, max = 8 }
  dispatch  = "deferred:beta-lambda,early"
  pipelines = ["faces"]
}
`

const clusterCSV = "hardware,batch,concurrency,duration_ms,memory_mib\ngpu,1,1,20,900\ngpu,2,1,30,950\n"

func TestClusterIsReadAndPrinted(t *testing.T) {
	c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": clustered, "p.csv": clusterCSV}))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	want := pipelines.Cluster{Name: "vision", Hardware: "gpu", Devices: pipelines.Range{Min: 2, Max: 8}, Dispatch: "deferred:beta-lambda,early", Pipelines: []string{"faces"}}
	assert.Equal(t, []pipelines.Cluster{want}, c.Document.Clusters)
	c.Document.Pipelines[0].Modules[0].ProfileFile = "p.csv"
	assert.Equal(t, clustered, string(HCL(c.Document)))
	assert.Equal(t, "vision", c.Document.ClusterOf("faces"))
	assert.Empty(t, c.Document.ClusterOf("others"))
}

func TestWhatIsWrongWithAClusterAndWhere(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{`devices   = { min = 2, max = 8 }`, `devices = { min = 9, max = 8 }`, "a.hcl:32:13: error: Invalid devices: The least number of devices, min = 9, is above the most, max = 8."},
		{`devices   = { min = 2, max = 8 }`, `devices = 0`, "a.hcl:32:13: error: Invalid devices: A cluster has at least one device"},
		{`devices   = { min = 2, max = 8 }`, `devices = 9`, "Too many devices: The cluster has at least 9 devices, and there are 8"},
		{`pipelines = ["faces"]`, `pipelines = []`, "No pipeline: A cluster serves at least one pipeline"},
		{`pipelines = ["faces"]`, `pipelines = ["face"]`, `a.hcl:34:16: error: Unknown pipeline: The files declare no pipeline "face". Did you mean "faces"?`},
		{`pipelines = ["faces"]`, `pipelines = ["faces", "faces"]`, "stands in the cluster twice"},
		{`hardware  = "gpu"`, `hardware  = "gpx"`, `No hardware block declares "gpx"`},
		{`hardware  = "gpu"`, `hardware  = "cpu"`, `detect of pipeline "faces" does not run on "cpu"`},
		{`deferred:beta-lambda,early`, `deferred:alpha`, `Unknown variant: Dispatch policy deferred has no variant "alpha"`},
		{`deferred:beta-lambda,early`, `tc`, "Policy tc cuts batches for the groups of a plan; a cluster has none"},
		{`memory = "1GiB"`, `memory = "512MiB"`, `Model fits on no device: detect of pipeline "faces" takes 900 MiB`},
		{`slo  = "50ms"`, `slo  = "10ms"`, `SLO 10ms of pipeline "faces" is below the 20 ms that detect takes alone on "gpu"`},
		{`cluster "vision"`, "cluster \"other\" {\n  hardware = \"gpu\"\n  pipelines = [\"faces\"]\n}\n\ncluster \"vision\"", `Pipeline "faces" is in cluster "other" already`},
		{`cluster "vision"`, `cluster "faces"`, `There is a pipeline "faces", too`},
	} {
		require.Contains(t, clustered, test.from)
		src := strings.Replace(clustered, test.from, test.to, 1)
		c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": src, "p.csv": clusterCSV}))
		text := ""
		for _, f := range Findings(append(diags, c.Validate(nil)...)) {
			text += fmt.Sprintf("%s:%d:%d: %s: %s: %s\n", filepath.Base(f.File), f.Line, f.Column, f.Severity, f.Summary, f.Detail)
		}
		assert.Contains(t, text, test.want)
	}
}
