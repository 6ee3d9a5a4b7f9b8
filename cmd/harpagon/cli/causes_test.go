//go:build !noserver

package cli

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

func TestMain(m *testing.M) {
	local.ChildMain()
	os.Exit(m.Run())
}

const causeHCL = `
hardware "cpu" { price = 0.04 }

pipeline "%[1]s" {
  slo  = "8s"
  rate = 5
  input "x" {
    datatype = "FP32"
    shape    = [2]
  }
  module "m" {
    engine  = "process"
    command = ["python3", "./%[1]s.py"]
    files   = ["oip.py"]
    inputs  = { x = input.x }
    batches = [1, 2]
    %[2]s
  }
  output "y" { value = module.m.y }
}
`

// failing has ways to fail, chosen by the input.
const failing = `import os, sys, oip
class Model:
    inputs = [("x", "FP32", [-1, 2])]
    outputs = [("y", "FP32", [-1, 2])]
    def infer(self, tensors):
        shape, values = tensors["x"]
        if values[0] == 7:
            print("MemoryError: arena of 12 GiB exhausted", file=sys.stderr, flush=True)
            os._exit(9)
        if values[0] == 8:
            raise oip.Invalid("x[0] must not be 8")
        if values[0] == 9:
            raise ValueError("matrix is singular")
        return {"y": (shape, values)}
oip.serve(Model())
`

const unloadable = `import sys
print("loading the weights", file=sys.stderr)
print("ImportError: no module named torchx", file=sys.stderr)
sys.exit(3)
`

// An engine's own account of its failure reaches every surface: the Go client, HTTP, infer,
// load, status, explain, the console, and Temporal's history.
func TestRootCausesReachEverySurface(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	files := t.TempDir()
	oip, err := os.ReadFile("../../../examples/process/oip.py")
	require.NoError(t, err)
	write := func(name, text string) string {
		path := filepath.Join(files, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	declare := func(name, code, more string) string {
		write(name+"/oip.py", string(oip))
		write(name+"/"+name+".py", code)
		write(name+"/m.csv", "hardware,batch,duration_ms\ncpu,1,5\ncpu,2,6\n")
		return write(name+"/"+name+".hcl", fmt.Sprintf(causeHCL, name, more))
	}
	state := t.TempDir()
	s, err := local.Start(t.Context(), local.Options{Files: []string{declare("fails", failing, "")}, StateDir: state, Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	line := func(args ...string) result { return run(t, append(args, "--state", state)...) }

	for name, c := range map[string]struct {
		first  float32
		says   string
		told   bool // by status, too
		within string
	}{
		"a crash":               {7, "it ended with exit status 9, saying: MemoryError: arena of 12 GiB exhausted", true, "unavailable"},
		"an error of the model": {9, "ValueError: matrix is singular", true, "internal"},
		"a wrong input":         {8, "x[0] must not be 8", false, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Client().Infer(t.Context(), "fails", sdk.Inputs{"x": sdk.Float32([]float32{c.first, 1}, 2)})
			require.ErrorContains(t, err, c.says)
			body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[%v,1]}]}`, c.first)
			assert.Contains(t, asked(t, s.GatewayURL+"/v2/models/fails/infer", body), c.says)
			input := write("x.json", fmt.Sprintf("[%v,1]", c.first))
			assert.Contains(t, line("infer", "fails", "--input", "x="+input).stderr, c.says)
			got := line("load", "fails", "--rate", "5", "--duration", "1s", "--warmup", "0s", "--input", "x="+input).stdout
			assert.Contains(t, joined(got), c.says, "load")
			assert.Contains(t, got, "the first "+c.within)
			assert.Contains(t, line("load", "fails", "--rate", "5", "--duration", "1s", "--warmup", "0s", "--json", "--input", "x="+input).stdout, c.says)
			if !c.told {
				return
			}
			require.Eventually(t, func() bool { return strings.Contains(joined(line("status").stdout), c.says) }, time.Minute, 500*time.Millisecond)
			assert.Contains(t, joined(line("explain", "fails").stdout), c.says)
			assert.Contains(t, asked(t, s.GatewayURL+"/console/services/fails", ""), c.says)
		})
	}

	for name, c := range map[string]struct{ service, code, more, says string }{
		"cannot be measured": {"unmeasured", unloadable, "", "it ended with exit status 3, saying: ImportError: no module named torchx"},
		"cannot be loaded":   {"unloaded", unloadable, `profile = "m.csv"`, "it ended with exit status 3, saying: ImportError: no module named torchx"},
	} {
		t.Run(name, func(t *testing.T) {
			path := declare(c.service, c.code, c.more)
			assert.Contains(t, joined(line("apply", path).stderr), c.says)
			assert.Contains(t, joined(line("status", c.service).stdout), c.says)
			assert.Contains(t, joined(line("explain", c.service).stdout), c.says)
			require.Eventually(t, func() bool {
				return strings.Contains(asked(t, s.GatewayURL+"/console/services/"+c.service, ""), c.says)
			}, time.Minute, 500*time.Millisecond, "the console reads the state of services every few seconds")
			assert.Contains(t, activityFailures(t, s, c.service), c.says, "Temporal")
		})
	}
	missing := run(t, "apply", write("missing.hcl", strings.Replace(fmt.Sprintf(causeHCL, "missing", ""), "oip.py", "none.py", 1)), "--state", state)
	assert.Equal(t, ExitError, missing.code)
	assert.Contains(t, missing.stderr, "none.py")
	assert.Contains(t, missing.stderr, "missing.hcl line ")
}

// joined is text without the breaks of its lines.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

// asked is the answer of a server as readable text.
func asked(t *testing.T, url, body string) string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return html.UnescapeString(string(text))
}

// activityFailures is what Temporal's UI shows of failed activities of a service's workflows.
func activityFailures(t *testing.T, s *local.System, service string) string {
	t.Helper()
	var b strings.Builder
	all, err := s.Temporal().ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(t, err)
	for _, w := range all.Executions {
		if !strings.Contains(w.Execution.WorkflowId, service) {
			continue
		}
		events := s.Temporal().GetWorkflowHistory(t.Context(), w.Execution.WorkflowId, w.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err)
			if f := e.GetActivityTaskFailedEventAttributes(); f != nil {
				b.WriteString(f.Failure.Message + "\n" + f.Failure.GetCause().GetMessage() + "\n")
			}
			if f := e.GetActivityTaskStartedEventAttributes(); f != nil {
				b.WriteString(f.LastFailure.GetMessage() + "\n")
			}
		}
	}
	return b.String()
}
