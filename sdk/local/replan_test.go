//go:build !noserver

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/apart"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// stream sends requests to a pipeline at a steady pace and counts their outcomes.
type stream struct {
	stop     chan struct{}
	asking   sync.WaitGroup
	mu       sync.Mutex
	asked    int
	answered map[int]int // by generation
	failed   map[string]int
}

func startStream(c *sdk.Client, pipeline string, every time.Duration) *stream {
	s := &stream{stop: make(chan struct{}), answered: map[int]int{}, failed: map[string]int{}}
	frame := sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)
	s.asking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			s.asking.Go(func() {
				r, err := c.Infer(context.Background(), pipeline, sdk.Inputs{"frame": frame})
				s.note(r, err)
			})
		}
	})
	return s
}

func (s *stream) note(r *sdk.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	var e *sdk.Error
	switch {
	case err == nil:
		s.answered[r.Generation()]++
	case errors.As(err, &e):
		s.failed[string(e.Code)+" at "+e.Stage+": "+e.Reason]++
	default:
		s.failed[err.Error()]++
	}
}

// end stops sending, waits for what is under way, and returns the counts.
func (s *stream) end() (answered map[int]int, failed map[string]int) {
	close(s.stop)
	s.asking.Wait()
	return s.answered, s.failed
}

// change applies the file with variables and waits until that serves.
func change(t *testing.T, s *local.System, file string, vars map[string]string) (control.Status, error) {
	t.Helper()
	c, diags := hcl.Load(hcl.LoadOptions{Vars: vars}, file)
	require.False(t, diags.HasErrors(), diags)
	doc := c.Document
	ctl := system.Control(s.Temporal(), local.Options{})
	reply, err := ctl.Apply(t.Context(), workflows.ApplyRequest{Spec: scheduler.Specs(&doc)[0]})
	require.NoError(t, err)
	return ctl.WaitServing(t.Context(), doc.Pipelines[0].Name, reply.Generation, nil)
}

// emulatedHCL leaves so much time that a busy machine cannot make a request
// late: what fails here fails because of a change.
const emulatedHCL = `
variable "rate" { default = 40 }
variable "slo" { default = "8s" }
variable "dispatch" { default = "tc" }

hardware "t4" { price = 0.5 }

pipeline "emulated" {
  slo  = var.slo
  rate = var.rate
  dispatch = var.dispatch
  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96]
  }
  module "detect" {
    engine  = "emulated"
    profile = "detect.csv"
    inputs  = { image = input.frame }
  }
  module "vehicle" {
    engine  = "emulated"
    profile = "vehicle.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = 1.8
  }
  output "kinds" { value = module.vehicle.label }
}
`

// emulatedFolder writes the pipeline of emulatedHCL with its profiles, and the same under
// other names.
func emulatedFolder(t *testing.T, others ...string) string {
	dir := t.TempDir()
	profile := func(name string, ms ...float64) {
		text := "hardware,batch,duration_ms\n"
		for i, d := range ms {
			text += fmt.Sprintf("t4,%d,%v\n", 1<<i, d)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	profile("detect.csv", 20, 24, 32, 48, 80)
	profile("vehicle.csv", 4, 5, 7, 11, 19)
	emulatedFile := filepath.Join(dir, "emulated.hcl")
	text := emulatedHCL
	_, pipeline, _ := strings.Cut(emulatedHCL, `pipeline "emulated"`)
	for _, name := range others {
		text += "pipeline \"" + name + "\"" + pipeline
	}
	require.NoError(t, os.WriteFile(emulatedFile, []byte(text), 0o600))
	return emulatedFile
}

// untimed is the plan of a pipeline without how long it took to find, and by which dispatch it was
// simulated.
func untimed(p *scheduler.Plan) plan.Plan {
	one := *p.Pipeline
	one.SolveTime = 0
	if one.Expected != nil {
		expected := *one.Expected
		expected.Dispatch = ""
		one.Expected = &expected
	}
	return one
}

// The policy changes while requests wait in it; executors go on as they are.
func TestAnotherDispatchUnderLoadLosesNothing(t *testing.T) {
	testkit.Long(t)
	file := emulatedFolder(t)
	s, err := local.Start(t.Context(), local.Options{Files: []string{file}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	load := startStream(s.Client(), "emulated", 25*time.Millisecond)
	before := s.Services[0]
	for _, policy := range []string{"adaptive", "deferred", "eager", "clockwork", "nexus", "tc"} {
		time.Sleep(300 * time.Millisecond)
		status, err := change(t, s, file, map[string]string{"dispatch": policy})
		require.NoError(t, err)
		assert.Equal(t, policy, status.Dispatch)
		assert.Equal(t, before.Executors, status.Executors)
		assert.Equal(t, untimed(before.Plan), untimed(status.Plan))
	}
	time.Sleep(300 * time.Millisecond)
	answered, failed := load.end()
	t.Logf("answered by generation %v", answered)
	assert.Empty(t, failed)
	assert.GreaterOrEqual(t, len(answered), 5, "requests were answered under the policies")
}

func TestReplanningUnderLoadLosesNothing(t *testing.T) {
	testkit.Long(t)
	emulatedFile := emulatedFolder(t)
	for _, c := range []struct {
		name, file string
		start      map[string]string
		every      time.Duration
		changes    []map[string]string
	}{
		{"emulated", emulatedFile, nil, 25 * time.Millisecond, []map[string]string{{"rate": "150"}, {"rate": "150", "slo": "2s"}, {"rate": "20"}}},
		{"traffic", "../../examples/traffic", map[string]string{"slo": "8s"}, 100 * time.Millisecond, []map[string]string{{"slo": "8s", "rate": "30"}, {"slo": "3s", "rate": "30"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := local.Start(t.Context(), local.Options{Files: []string{c.file}, Vars: c.start, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			load := startStream(s.Client(), c.name, c.every)
			before := s.Services[0]
			for _, vars := range c.changes {
				time.Sleep(500 * time.Millisecond)
				status, err := change(t, s, c.file, vars)
				require.NoError(t, err)
				assert.Greater(t, status.Serving, before.Serving)
				assert.NotEqual(t, before.Plan, status.Plan)
				before = status
			}
			time.Sleep(500 * time.Millisecond)
			answered, failed := load.end()
			t.Logf("answered by generation %v", answered)
			assert.Empty(t, failed)
			assert.GreaterOrEqual(t, len(answered), 2, "requests were answered before and after")
		})
	}
}

func TestARateThatTheMachineCannotHold(t *testing.T) {
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("it measures networks and plans for a thousand devices; HARPAGON_LONG=1 runs it")
	}
	s, err := local.Start(t.Context(), local.Options{Files: []string{"../../examples/traffic"}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = change(t, s, "../../examples/traffic", map[string]string{"rate": "100000"})
	require.Error(t, err)
	t.Log(err)
	assert.Contains(t, err.Error(), "would fit", "the message names the rate that fits")
	_, err = s.Client().Infer(t.Context(), "traffic", sdk.Inputs{"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)})
	var e *sdk.Error
	if err != nil {
		require.ErrorAs(t, err, &e)
		assert.Equal(t, sdk.ErrDeadline, errors.Unwrap(e), "what served goes on; only a busy machine can be late")
	}
}

func TestACrashOfAnEngineIsSurvived(t *testing.T) {
	testkit.Long(t)
	var temporal *apart.Server
	s, err := local.Start(t.Context(), local.Options{
		Files: []string{"../../examples/traffic"}, Vars: map[string]string{"slo": "8s"}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Temporal: known(&temporal),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	load := startStream(s.Client(), "traffic", 50*time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	engines := slices.DeleteFunc(children(t), func(pid int) bool { return pid == temporal.PID() })
	require.NotEmpty(t, engines, "networks run in processes of their own")
	for _, pid := range engines {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	frame := sdk.Inputs{"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)}
	require.Eventually(t, func() bool {
		_, err := s.Client().Infer(t.Context(), "traffic", frame)
		return err == nil
	}, time.Minute, 100*time.Millisecond, "the engines are started again")
	answered, failed := load.end()
	t.Logf("answered %v, failed %v", answered, failed)
	for reason := range failed {
		assert.True(t, strings.HasPrefix(reason, "unavailable"), reason)
	}
}

// children lists the processes that this one has started and that still run.
func children(t *testing.T) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var all []int
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // gone meanwhile
		}
		_, rest, ok := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		require.NoError(t, err)
		all = append(all, pid)
	}
	return all
}

// BenchmarkUp is the time from nothing to ready, with profiles on file.
func BenchmarkUp(b *testing.B) {
	ready := time.Duration(0)
	for b.Loop() {
		began := time.Now()
		s, err := local.Start(b.Context(), local.Options{Files: []string{emulated}, StateDir: b.TempDir(), Environ: []string{}})
		require.NoError(b, err)
		ready += time.Since(began)
		require.NoError(b, s.Close())
	}
	b.ReportMetric(ready.Seconds()/float64(b.N), "ready-s/op")
}
