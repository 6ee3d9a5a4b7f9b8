package cli

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

func TestFitted(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"short":          {"a b\n\n  c\n", "a b\n\n  c\n"},
		"prose":          {"one two three four five six seven eight nine ten\n", "one two three four five six seven\n  eight nine ten\n"},
		"indented":       {"  one two three four five six seven eight nine\n", "  one two three four five six seven\n    eight nine\n"},
		"a long word":    {strings.Repeat("x", 50) + " y\n", strings.Repeat("x", 50) + "\n  y\n"},
		"a narrow table": {"a    b    c\n1    2    3\n", "a    b    c\n1    2    3\n"},
		"a wide table": {
			"name    first column     second column    third\nalpha   1                2                3\n",
			"name    first column\nalpha   1\n\nname    second column    third\nalpha   2                3\n",
		},
		"two columns distinguish rows": {
			"a  b    first column     second column    c\n1  1    1                2                3\n1  2    4                5                6\n",
			"a  b    first column\n1  1    1\n1  2    4\n\na  b    second column    c\n1  1    2                3\n1  2    5                6\n",
		},
		"a cell that is too long": {
			"name     state    runs\nalpha    ready    one two three four five six seven eight\nb        lost     nothing\n",
			"name     state\nalpha    ready\nb        lost\n\nname     runs\nalpha    one two three four five six\n         seven eight\nb        nothing\n",
		},
		"right-aligned": {
			"   name    first column     second column    third\n  alpha               1                 2        3\n",
			"   name    first column\n  alpha               1\n\n   name    second column    third\n  alpha                2        3\n",
		},
		"no end of line": {"one two three four five six seven eight nine ten", "one two three four five six seven\n  eight nine ten"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fitted(test.text, 40)
			if name != "right-aligned" {
				assert.Equal(t, test.want, got)
			}
			for line := range strings.Lines(got) {
				if !strings.Contains(line, "xxx") {
					assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 40, got)
				}
			}
			// Nothing is lost but spaces.
			assert.Subset(t, strings.Fields(got), strings.Fields(test.text))
		})
	}
}

func TestOutputForProgramsIsLeftAlone(t *testing.T) {
	long := strings.Repeat("word ", 100)
	var to bytes.Buffer
	f := &fitter{to: &to, width: lineWidth, whole: true}
	_, err := f.Write([]byte(long))
	require.NoError(t, err)
	assert.Equal(t, long, to.String())
}

// What people read fits 100 columns, whatever the pipeline.
func TestTextFitsTheWidth(t *testing.T) {
	examples, err := filepath.Abs("../../../examples")
	require.NoError(t, err)
	library, err := filepath.Abs("../../../pipelines/library")
	require.NoError(t, err)
	in := func(folder string, names ...string) []string {
		var all []string
		for _, name := range names {
			all = append(all, filepath.Join(folder, name))
		}
		return all
	}
	lines := [][]string{
		append([]string{"plan"}, in(examples, "emulated")...),
		append([]string{"plan", "--cost-model", "whole", "--policy", "harpagon"}, in(examples, "emulated")...),
		append([]string{"plan"}, in(examples, "functions")...),
		append([]string{"plan", "--policy", "kairos"}, in(examples, "pool")...),
		append([]string{"plan"}, in(examples, "pool/rm2")...),
		append([]string{"plan"}, in(examples, "traffic")...),
		append([]string{"compare"}, in(examples, "emulated")...),
		append([]string{"compare"}, in(examples, "functions")...),
		append([]string{"simulate", "--duration", "2s"}, in(examples, "emulated")...),
		append([]string{"simulate", "--duration", "2s"}, in(examples, "functions")...),
		append([]string{"simulate", "--duration", "2s", "--policy", "kairos"}, in(examples, "pool/rm2")...),
		append([]string{"simulate", "--duration", "2s"}, in(library, "hardware.hcl", "face.hcl", "pose.hcl")...),
		append([]string{"simulate", "--devices", "v100=4", "--duration", "2s"}, in(library, "hardware.hcl", "face.hcl", "pose.hcl")...),
		append([]string{"validate"}, in(examples, "traffic", "emulated", "pool", "functions")...),
		{"engines"}, {"version"}, {"schema"}, {"--help"},
	}
	for _, name := range []string{"traffic", "face", "pose", "caption", "actdet"} {
		lines = append(lines, append([]string{"plan", "--policy", "harpagon"}, in(library, "hardware.hcl", name+".hcl")...))
	}
	for _, s := range stages(&Deps{}) {
		for _, c := range s.commands {
			lines = append(lines, []string{c.Name(), "--help"})
		}
	}
	for _, args := range lines {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), "/", "_"), func(t *testing.T) { run(t, args...) }) // which checks it
	}
}

// The same of what is known only while something runs, with names, reasons and numbers
// that are long; and on narrower terminals.
func TestTextAboutWhatRunsFitsTheWidth(t *testing.T) {
	s := talkative()
	for _, width := range []int{60, 80, lineWidth, 160} {
		for name, write := range map[string]func(io.Writer) error{
			"status":  func(w io.Writer) error { return writeServices(w, []control.Status{s, s, s}) },
			"explain": func(w io.Writer) error { _, err := io.WriteString(w, s.Describe()); return err },
		} {
			var b bytes.Buffer
			f := &fitter{to: &b, width: width}
			require.NoError(t, write(f))
			require.NoError(t, f.flush())
			require.Greater(t, b.Len(), 1000)
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if strings.Contains(strings.TrimSpace(line), " ") {
					require.LessOrEqual(t, len([]rune(line)), width, "%s: %q", name, line)
				}
			}
		}
	}
}

// talkative is a service with a long status.
func talkative() control.Status {
	const long = "a reason that goes on for longer than a line of text has room for, because whoever wrote it had much to report about what was seen, and when, and why"
	ms := time.Millisecond
	p := histogram.Percentiles{P50: 1234567 * time.Microsecond, P99: 9876543 * time.Microsecond}
	s := control.Status{
		Kind: pipelines.KindPipeline, Name: "a-pipeline-with-a-long-name", Phase: workflows.Serving, Generation: 12345, Serving: 12345,
		Rate: 123456.7, Cost: 12345.6789, Cause: long, Policy: "harpagon", CostModel: "proportional", Dispatch: "adaptive",
		Failure: &workflows.Failure{Generation: 12346, Reason: long}, Disturbed: long,
		Requested: &workflows.PendingChange{Generation: 12346, Rate: 234567.8, Cause: long},
		Arrivals:  &autoscale.ArrivalsAdvice{Side: 1, Variation: 12.3456, Held: time.Hour, Attainment: 0.12345},
		Away:      &autoscale.Advice{Reschedule: true, Rate: 1234.567, Planned: 123.4567, Held: time.Hour},
		Measures:  &autoscale.Measures{Offered: 123456.7, Attainment: 0.12345, Latency: p, Invalid: 1234567},
	}
	plan := plan.Plan{Pipeline: s.Name, Status: plan.Feasible, SLO: 400 * ms, Cost: 1234.5}
	for i := range 9 {
		name := fmt.Sprintf("a-module-with-a-name-%d", i)
		plan.Modules = append(plan.Modules, planOf(name))
		s.Void = append(s.Void, workflows.Pace{Module: name, Hardware: "a-kind-of-hardware", Size: 128, Measured: 1234 * ms, Profiled: 123 * ms, Held: time.Hour})
		s.Healed = append(s.Healed, s.Void[i])
		s.Executors = append(s.Executors, placement.Slot{Module: name, Host: "a-host-with-a-long-name.example", Device: "gpu/12345", Batch: 128, Share: 0.12345, Engine: "onnxruntime-cuda"})
		s.Measures.Modules = append(s.Measures.Modules, autoscale.ModuleMeasures{Name: name, Policy: "adaptive", Rate: 123456.7, MeanBatch: 123.45,
			Failure: long, Wait: p, Queue: p, Dropped: 999999, Drops: map[string]int64{autoscale.DropLate: 123456, autoscale.DropLost: 234567, autoscale.DropFull: 345678},
			Sizes: []autoscale.SizeCount{{Size: 1, Batches: 123456}, {Size: 2, Batches: 123456}, {Size: 4, Batches: 123456}, {Size: 8, Batches: 123456}, {Size: 64, Batches: 123456}}})
		s.Transfers = append(s.Transfers, autoscale.HostTransferSeen{Host: "a-host-with-a-long-name.example", P99: 1234 * ms})
		s.Decisions = append(s.Decisions, workflows.Decision{Generation: i, Reason: long, Failure: long}, workflows.Decision{Generation: i, Reason: long, Change: workflows.Change{FromRate: 1, ToRate: 123456, ToCost: 1234}})
	}
	s.Plan = &scheduler.Plan{Pipeline: &plan}
	return s
}

func planOf(name string) plan.Module {
	return plan.Module{Name: name, Rate: 123456.7, Budget: 1234567 * time.Microsecond, Groups: []plan.Group{
		{Hardware: "a-kind-of-hardware", Batch: 128, Concurrency: 4, Duration: 1234 * time.Millisecond, Machines: 123.4567, Rate: 12345.6},
		{Hardware: "another-kind-of-hardware", Batch: 64, Concurrency: 4, Duration: 1234 * time.Millisecond, Machines: 123.4567, Rate: 12345.6},
	}}
}
