package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func TestBenchPlan(t *testing.T) {
	got := run(t, "bench", "plan", "--workloads", "6", "--cost-model", "proportional", "--policy", "harpagon")
	require.Equal(t, ExitOK, got.code, got.stderr)
	for _, text := range []string{"Policies, cost model proportional, 6 workloads", "certified", "Harp-2d", "several-group plans"} {
		assert.Contains(t, got.stdout, text)
	}
	assert.NotContains(t, got.stdout, "nexus", "not asked for")
	assert.NotContains(t, got.stdout, "DEFECT")
	assert.Contains(t, got.stderr, "6 of 6")
}

func TestBenchPlanForPrograms(t *testing.T) {
	got := run(t, "bench", "plan", "--workloads", "3", "--part", "policies", "--cost-model", "proportional,whole", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out struct {
		Workloads int
		Tables    []struct {
			CostModel string `json:"cost_model"`
			Rows      []struct {
				Name string
				Run  int
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	assert.Equal(t, 3, out.Workloads)
	require.Len(t, out.Tables, 2)
	for _, table := range out.Tables {
		var names []string
		for _, r := range table.Rows {
			names = append(names, r.Name)
		}
		for _, name := range policies.Names() {
			if (plan.Options{Policy: name, CostModel: table.CostModel}).Check() == nil {
				assert.Contains(t, names, name)
			}
		}
	}
}

func TestBenchPlanAsMarkdown(t *testing.T) {
	got := run(t, "bench", "plan", "--workloads", "2", "--part", "ablations", "--markdown")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "Made by `harpagon bench plan --part ablations --workloads 2 --markdown` on go")
	assert.Contains(t, got.stdout, "| Harp-nb | the smallest batch only | ")
}

// TestBenchCurve runs on a clock on which everything takes longer than the
// curve has patience for, so that each policy plans one size.
func TestBenchCurve(t *testing.T) {
	var ticks atomic.Int64
	var stdout, stderr bytes.Buffer
	picture := filepath.Join(t.TempDir(), "curve.svg")
	code := Run(context.Background(), Deps{
		Stdout: &stdout, Stderr: &stderr,
		Clock: func() time.Duration { return time.Duration(ticks.Add(1)) * 2 * time.Second },
	}, []string{"bench", "plan", "--curve", "--plot", picture, "--cost-model", "proportional,whole"})
	require.Equal(t, ExitOK, code, stderr.String())
	assert.Contains(t, stdout.String(), "Solve time over the number of modules")
	assert.Contains(t, stdout.String(), "16 batch sizes, cost model whole")
	assert.Equal(t, 2*3+1, strings.Count(stdout.String(), "\n"), "title, head and one size each:\n%s", stdout.String())
	assert.Contains(t, read(t, picture), ">cost model whole<")
}

func TestBenchStopsWhenAsked(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	d := Deps{Stderr: io.Discard}
	var done atomic.Int64
	err := d.work(ctx, "nothing", 1000, func(int) { done.Add(1) })
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, stopped(err), "stopped before the end")
	assert.Less(t, done.Load(), int64(1000))
}

func TestBenchDispatch(t *testing.T) {
	got := run(t, "bench", "dispatch", "--quick", "--part", "devices,frontends,speed", "--policy", "adaptive,deferred", "--plot", filepath.Join(t.TempDir(), "curve.svg"))
	require.Equal(t, ExitOK, got.code, got.stderr)
	for _, text := range []string{"From one device to a thousand", "Adaptive over deferred: ", "table 2", "| adaptive | 64 |"} {
		assert.Contains(t, got.stdout, text)
	}
	assert.NotContains(t, got.stdout, "clockwork", "not asked for")
}

func TestBenchDispatchForPrograms(t *testing.T) {
	got := run(t, "bench", "dispatch", "--quick", "--part", "models", "--policy", "adaptive", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out struct {
		Tables []struct {
			Rows []struct {
				Setting  string
				Policies []struct {
					Goodput float64 `json:"goodput_rate"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Tables, 1)
	for _, r := range out.Tables[0].Rows {
		assert.Positive(t, r.Policies[0].Goodput, r.Setting)
	}
}

func TestBenchDispatchRefuses(t *testing.T) {
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"--part", "table9"}, `no part "table9"; there is table4`},
		{[]string{"--policy", "matching"}, `no pool policy "matching"`},
		{[]string{"--json", "--markdown"}, "exclude each other"},
		{[]string{"--plot", "x.svg", "--part", "table4"}, "--plot draws the parts"},
	} {
		got := run(t, append([]string{"bench", "dispatch"}, row.args...)...)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, row.says)
	}
}

func TestBenchOverload(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "curves.svg")
	got := run(t, "bench", "overload", "--workloads", "1", "--policy", "tc", "--plot", picture)
	require.Equal(t, ExitOK, got.code, got.stderr)
	for _, text := range []string{"poisson arrivals, devices shared", "even arrivals, devices whole", "| tc |", "every request taken in", "x10"} {
		assert.Contains(t, got.stdout, text)
	}
	assert.FileExists(t, picture)
	got = run(t, "bench", "overload", "--policy", "fifo")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `no dispatch policy "fifo"`)
}
