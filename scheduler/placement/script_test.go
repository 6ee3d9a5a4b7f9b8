package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// TestReconcileScripts plays the life of a pipeline on a host. Commands:
//
//	devices cpu=2 [gpu=1]            what the host has
//	reserve cpu/0=0.5                what others use
//	apply [rate=10] [bound=0.75]     places a plan, one line a group, and
//	                                 prints the changes and the loads
//	    detect batch=4 duration=40ms machines=0.5 [hardware=cpu] [model=x]
//	lose cpu/0                       the device and its executors are gone
func TestReconcileScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/reconcile", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "devices":
				s.devices = nil
				for _, arg := range d.CmdArgs {
					n := 0
					_, err := fmt.Sscan(arg.Vals[0], &n)
					require.NoError(t, err)
					for i := range n {
						s.devices = append(s.devices, Device{Host: "host", Name: fmt.Sprintf("%s/%d", arg.Key, i), Hardware: arg.Key, Memory: 1 << 30})
					}
				}
				return "ok\n"
			case "reserve":
				for _, arg := range d.CmdArgs {
					slot := Slot{Executor: "other@" + arg.Key, Pipeline: "other", Host: "host", Device: arg.Key}
					_, err := fmt.Sscan(arg.Vals[0], &slot.Share)
					require.NoError(t, err)
					s.reserved = append(s.reserved, slot)
				}
				return "ok\n"
			case "apply":
				return s.apply(t, d)
			case "lose":
				s.lose(d.CmdArgs[0].Key)
				return "ok\n"
			}
			d.Fatalf(t, "there is no command %s", d.Cmd)
			return ""
		})
	})
}

type script struct {
	devices  []Device
	reserved []Slot
	actual   []Slot
}

func (s *script) apply(t *testing.T, d *datadriven.TestData) string {
	r := Request{
		Pipeline: pipelines.Pipeline{Name: "traffic", Rate: 10}, Devices: s.devices, Reserved: s.reserved, Actual: s.actual,
		Engines: map[string]ModuleEngine{},
	}
	d.MaybeScanArgs(t, "rate", &r.Pipeline.Rate)
	d.MaybeScanArgs(t, "bound", &r.MaxShare)
	r.Plan = s.plan(t, d.Input, r.Engines)
	p, err := Place(r)
	if err != nil {
		return err.Error() + "\n"
	}
	out := Reconcile(p.Slots, s.actual).Describe()
	s.actual = p.Slots
	for _, l := range p.Loads {
		out += fmt.Sprintf("  %s %s\n", l.Device.place(), percent(l.Share))
	}
	return out
}

func (s *script) plan(t *testing.T, input string, engines map[string]ModuleEngine) plan.Plan {
	out := plan.Plan{Pipeline: "traffic", Status: plan.Feasible}
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		g := plan.Group{Hardware: "cpu", Concurrency: 1}
		model := "v1"
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			var err error
			switch key {
			case "batch":
				_, err = fmt.Sscan(value, &g.Batch)
			case "duration":
				g.Duration, err = time.ParseDuration(value)
			case "machines":
				_, err = fmt.Sscan(value, &g.Machines)
			case "hardware":
				g.Hardware = value
			case "model":
				model = value
			default:
				err = fmt.Errorf("a group has no %s", key)
			}
			require.NoError(t, err)
		}
		g.Rate = g.Machines * float64(g.Batch) / g.Duration.Seconds()
		engines[fields[0]] = ModuleEngine{Engine: "emulated", Model: model, Memory: 1 << 20}
		if n := len(out.Modules); n == 0 || out.Modules[n-1].Name != fields[0] {
			out.Modules = append(out.Modules, plan.Module{Name: fields[0]})
		}
		m := &out.Modules[len(out.Modules)-1]
		m.Groups = append(m.Groups, g)
	}
	return out
}

func (s *script) lose(device string) {
	var devices []Device
	for _, d := range s.devices {
		if d.Name != device {
			devices = append(devices, d)
		}
	}
	var actual []Slot
	for _, slot := range s.actual {
		if slot.Device != device {
			actual = append(actual, slot)
		}
	}
	s.devices, s.actual = devices, actual
}
