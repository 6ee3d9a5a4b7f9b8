//go:build !noserver

package local_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
)

// overreach makes the victim serve the files that it names, and apply what cannot be planned.
const overreach = "HARPAGON_TEST_OVERREACH"

// tight is a declaration that leaves its devices no room for tooMuch.
const tight = `
hardware "one" {
  price = 1
  count = 2
}
variable "rate" { default = 40 }
pipeline "tight" {
  slo  = "400ms"
  rate = var.rate
  input "x" {
    datatype = "FP32"
    shape    = [4]
  }
  module "m" {
    engine  = "emulated"
    profile = "m.csv"
    inputs  = { x = input.x }
  }
  output "y" { value = module.m.y }
}
`

func tightFolder(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tight.hcl"), []byte(tight), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.csv"), []byte("hardware,batch,concurrency,duration_ms\none,1,1,10\none,4,1,22\n"), 0o600))
	return dir
}

var tooMuch = map[string]string{"rate": "5000"}

// refuse applies what cannot be planned; it returns the refusal.
func refuse(ctx context.Context, s *local.System, files string) error {
	doc, err := system.Load(hcl.LoadOptions{Vars: tooMuch}, nil, files)
	if err != nil {
		return err
	}
	commands := system.Control(s.Temporal(), local.Options{})
	reply, err := commands.Apply(ctx, workflows.ApplyRequest{Spec: scheduler.Specs(&doc)[0]})
	if err == nil {
		_, err = commands.WaitServing(ctx, "tight", reply.Generation, nil)
	}
	return err
}

// TestGoesOnAfterARefusedChange: what served comes back after a stop and after a kill, without
// and with the declaration that was refused, and the reason of the refusal is reported.
func TestGoesOnAfterARefusedChange(t *testing.T) {
	testkit.Long(t)
	for name, end := range map[string]func(t *testing.T, dir, files string){
		"a stop": func(t *testing.T, dir, files string) {
			s, err := local.Start(t.Context(), local.Options{Files: []string{files}, StateDir: dir, Environ: []string{}, WithoutUI: true})
			require.NoError(t, err)
			require.ErrorContains(t, refuse(t.Context(), s, files), "goes on serving")
			require.NoError(t, s.Close())
		},
		"a kill": func(t *testing.T, dir, files string) {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), victim+"="+dir, overreach+"="+files)
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.NoError(t, c.Process.Kill())
			_ = c.Wait() // killed
			require.Contains(t, line, "goes on serving")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, declared := t.TempDir(), tightFolder(t)
			end(t, dir, declared)
			for _, files := range [][]string{nil, {declared}} {
				var said []string
				note := func(line string) {
					said = append(said, line)
					t.Log(line)
				}
				o := local.Options{StateDir: dir, Environ: []string{}, WithoutUI: true, Files: files, Progress: note}
				if len(files) > 0 {
					o.Vars = tooMuch
				}
				s, err := local.Start(t.Context(), o)
				require.NoError(t, err)
				require.Len(t, s.Services, 1)
				assert.Equal(t, 40., s.Services[0].Rate)
				require.NotNil(t, s.Services[0].Failure, "the refused change waits")
				_, err = s.Client().Infer(t.Context(), "tight", sdk.Inputs{"x": sdk.Float32(make([]float32, 4), 4)})
				require.NoError(t, err)
				require.NoError(t, s.Close())
				if len(files) > 0 {
					assert.Contains(t, strings.Join(said, "\n"), "5000 requests per second need")
				}
			}
		})
	}
}
