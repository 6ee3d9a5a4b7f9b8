package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/workflows/control"
)

// newStatusCommand makes harpagon status.
func newStatusCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show which services run, and how",
		Example: `  harpagon status
  harpagon status traffic --json`,
	}
	at := newTemporalAt(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			services, err := commands.Statuses(c.Context(), args...)
			if err != nil {
				return err
			}
			found, err := commands.Devices(c.Context())
			if err != nil {
				return err
			}
			view, err := commands.Fleet(c.Context())
			if err != nil {
				return err
			}
			provisioners, err := commands.Provisioners(c.Context(), view)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(d.Stdout, newEverythingRow(services, found, view, provisioners))
			}
			if err := writeServices(d.Stdout, services); err != nil {
				return err
			}
			return errors.Join(writeDevices(d.Stdout, found), writeLeaving(d.Stdout, view), writeDispatchers(d.Stdout, view), writeProvisioners(d.Stdout, provisioners))
		})
	}
	return c
}

// newExplainCommand makes harpagon explain.
func newExplainCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [NAME...]",
		Short: "Show which plan runs, and why it replaced the one before",
		Long: `Shows the plan of a service, its executors or calls, and the latest
decisions: what changed, why, from which cost to which, and what could not be
carried out.`,
		Example: `  harpagon explain traffic`,
	}
	at := newTemporalAt(d, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			services, err := commands.Statuses(c.Context(), args...)
			if err != nil {
				return err
			}
			for i, s := range services {
				if i > 0 {
					fmt.Fprintln(d.Stdout)
				}
				fmt.Fprint(d.Stdout, s.Describe())
			}
			return nothingRuns(d.Stdout, services)
		})
	}
	return c
}

// writeServices writes a table of what runs on executors, and one of functions.
func writeServices(to io.Writer, all []control.Status) error {
	var served, called []control.Status
	for _, s := range all {
		if s.Kind == pipelines.KindFunction {
			called = append(called, s)
		} else {
			served = append(served, s)
		}
	}
	if len(served) > 0 {
		if err := writeStatuses(to, served); err != nil {
			return err
		}
	}
	if len(called) > 0 {
		if len(served) > 0 {
			fmt.Fprintln(to)
		}
		if err := writeFunctions(to, called); err != nil {
			return err
		}
	}
	return nothingRuns(to, all)
}

func writeStatuses(to io.Writer, all []control.Status) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pipeline\tphase\tgeneration\tpolicy\trate/s\tcost/h\texecutors\tmeasured/s\tin time\tp99\tinvalid")
	for _, s := range all {
		measured := "-\t-\t-\t-"
		if m := s.Measures; m != nil {
			measured = fmt.Sprintf("%s\t%s\t%s\t%d", quantity.Number(m.Offered), quantity.Percent(m.Attainment), quantity.Duration(m.Latency.P99), m.Invalid)
		}
		executors := fmt.Sprint(len(s.Executors))
		if n := len(s.Missing); n > 0 {
			executors = fmt.Sprintf("%d of %d", len(s.Executors)-n, len(s.Executors))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Phase, s.Generation, policyOf(s),
			quantity.Number(s.Rate), quantity.Money(s.Cost), executors, measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if table := s.Modules(); table != "" {
			fmt.Fprintf(to, "\n%s\n%s", s.Name, table)
		}
	}
	for _, s := range all {
		streams := ""
		if m := s.Measures; m != nil && m.Streams != nil {
			streams = m.Streams.Describe() + "\n"
		}
		for line := range strings.Lines(s.Variants() + s.Promise() + streams) {
			fmt.Fprintf(to, "\n%s: %s", s.Name, line)
		}
	}
	for _, s := range all {
		if s.Trial != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Trial.Describe())
		}
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Failure.Describe())
		}
	}
	return nil
}

func nothingRuns(w io.Writer, all []control.Status) error {
	if len(all) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "Nothing runs. Declare a service and harpagon apply it.")
	return err
}

// policyOf is how a service is planned: its policy, and of a pipeline the cost
// model.
func policyOf(s control.Status) string {
	if s.CostModel == "" {
		return cmp.Or(s.Policy, "-")
	}
	return s.Policy + ", " + s.CostModel
}

// deviceRow is a device in JSON.
type deviceRow struct {
	Host      string  `json:"host"`
	Device    string  `json:"device"`
	Hardware  string  `json:"hardware"`
	Executors int     `json:"executors"`
	Batches   int64   `json:"batches"`
	Items     int64   `json:"items"`
	Waiting   int     `json:"waiting"`
	BusyMS    float64 `json:"busy_ms"`
	OfferMiB  float64 `json:"offered_mib,omitempty"`
	HeldMiB   float64 `json:"executors_mib"`
	GPU       *gpuRow `json:"gpu,omitempty"`
	Quota     float64 `json:"quota,omitempty"` // of the host, where it offers more cores
}

// gpuRow leaves out what the driver does not report.
type gpuRow struct {
	Name        string       `json:"name"`
	MemoryMiB   float64      `json:"memory_mib"`
	UsedMiB     float64      `json:"used_mib"`
	Utilisation *float64     `json:"utilisation,omitempty"`
	Celsius     *int         `json:"temperature_celsius,omitempty"`
	Divided     bool         `json:"divided,omitempty"`
	PartOf      string       `json:"part_of,omitempty"`
	Processes   []processRow `json:"processes"`
}

type processRow struct {
	PID     int      `json:"pid"`
	UsedMiB *float64 `json:"used_mib,omitempty"`
}

func deviceRows(all []devices.Reading) []deviceRow {
	rows := make([]deviceRow, 0, len(all))
	for _, r := range all {
		row := deviceRow{
			Host: r.Host, Device: r.Device, Hardware: r.Hardware, Executors: r.Executors,
			Batches: r.Batches, Items: r.Items, Waiting: r.Waiting, BusyMS: quantity.Millis(r.Busy),
			OfferMiB: mib(r.Capacity), HeldMiB: mib(r.Memory), Quota: r.Quota,
		}
		if r.GPU != nil {
			row.GPU = newGPURow(r.GPU)
		}
		rows = append(rows, row)
	}
	return rows
}

func newGPURow(g *devices.GPU) *gpuRow {
	row := &gpuRow{Name: g.Name, MemoryMiB: mib(g.Memory), UsedMiB: mib(g.Used), Divided: g.Divided, PartOf: g.Part, Processes: []processRow{}}
	if g.Utilisation != devices.Unknown {
		row.Utilisation = &g.Utilisation
	}
	if g.Temperature != devices.Unknown {
		row.Celsius = &g.Temperature
	}
	for _, p := range g.Processes {
		process := processRow{PID: p.PID}
		if p.Memory != devices.Unknown {
			used := mib(p.Memory)
			process.UsedMiB = &used
		}
		row.Processes = append(row.Processes, process)
	}
	return row
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func writeDevices(to io.Writer, all []devices.Reading) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(to)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "device\thardware\texecutors\tbatches\tbusy s\tmemory MiB\tin use\ttemperature\tprocesses")
	rows, idle := worthShowing(deviceRows(all))
	for _, row := range rows {
		// Without a GPU, memory is only known as executors report it.
		memory, use, heat, processes := fmt.Sprintf("%.0f", row.HeldMiB), "-", "-", "-"
		if row.OfferMiB > 0 {
			memory += fmt.Sprintf(" of %.0f", row.OfferMiB)
		}
		if g := row.GPU; g != nil {
			memory = fmt.Sprintf("%.0f of %.0f", g.UsedMiB, g.MemoryMiB)
			processes = fmt.Sprint(len(g.Processes))
			if g.Utilisation != nil {
				use = fmt.Sprintf("%.0f %%", 100**g.Utilisation)
			}
			if g.Celsius != nil {
				heat = fmt.Sprintf("%d C", *g.Celsius)
			}
			if g.Divided {
				use = "divided"
			}
		}
		fmt.Fprintf(w, "%s/%s\t%s\t%d\t%d\t%.1f\t%s\t%s\t%s\t%s\n",
			row.Host, row.Device, row.Hardware, row.Executors, row.Batches, row.BusyMS/1000, memory, use, heat, processes)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if idle != "" {
		fmt.Fprintf(to, "and %s without executors\n", idle)
	}
	return writeQuotas(to, all)
}

// writeQuotas names the hosts that offer more cores than their containers may use.
func writeQuotas(to io.Writer, all []devices.Reading) error {
	told := map[string]bool{}
	for _, r := range all {
		if r.Quota == 0 || told[r.Host] {
			continue
		}
		told[r.Host] = true
		if _, err := fmt.Fprintf(to, "host %s offers more cores than the %s that the quota of its container has: batches take longer than profiled until the quota is raised, or the worker starts again with fewer\n", r.Host, quantity.Number(r.Quota)); err != nil {
			return err
		}
	}
	return nil
}

// devicesShown is how many devices a table shows of which some are idle.
const devicesShown = 16

// worthShowing leaves out devices that have nothing to do, of which nothing is
// known, where there are many: they are counted by hardware.
func worthShowing(all []deviceRow) (rows []deviceRow, idle string) {
	if len(all) <= devicesShown {
		return all, ""
	}
	count := map[string]int{}
	for _, row := range all {
		if row.Executors > 0 || row.GPU != nil {
			rows = append(rows, row)
		} else {
			count[row.Hardware]++
		}
	}
	var parts []string
	for _, hardware := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[hardware], hardware))
	}
	return rows, strings.Join(parts, ", ")
}

// writeLeaving names the hosts that are about to go.
func writeLeaving(to io.Writer, view activities.FleetView) error {
	names := view.Leaving()
	if len(names) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(to, "about to leave: %s\n", strings.Join(names, ", "))
	return err
}

// writeProvisioners writes which hosts are made, and what is waited for.
func writeProvisioners(to io.Writer, all []autoscale.HostsStatus) error {
	for _, s := range all {
		if _, err := fmt.Fprintf(to, "\n%s", s.Describe()); err != nil {
			return err
		}
	}
	return nil
}

// writeDispatchers writes which dispatcher decides for what; nothing where there are none.
func writeDispatchers(to io.Writer, view activities.FleetView) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for i, d := range dispatcherRows(view) {
		if i == 0 {
			fmt.Fprintln(w, "\ndispatcher\taddress\tdecides for")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.Name, d.Address, cmp.Or(strings.Join(d.Owns, ", "), "-"))
	}
	return w.Flush()
}

// writeFunctions sets what was measured beside the plan.
func writeFunctions(to io.Writer, all []control.Status) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "function\tphase\tgeneration\tpolicy\trate/s\tper million\tgroups\tmeasured/s\tper million\tbatch\tviolations")
	for _, s := range all {
		groups, perRequest, measured := 0, 0.0, "-\t-\t-\t-"
		if s.Plan != nil {
			groups, perRequest = len(s.Plan.Function.Groups), s.Plan.Function.CostPerRequest
		}
		if m := s.Calls(); m != nil {
			t := m.Total()
			measured = fmt.Sprintf("%s\t%s\t%.1f\t%s", quantity.Number(m.Offered()), quantity.Money(1e6*t.CostPerRequest()), t.MeanBatch(), quantity.Percent(m.Violations()))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.Phase, s.Generation, policyOf(s),
			quantity.Number(s.Rate), quantity.Money(1e6*perRequest), groups, measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if m := s.Calls(); m != nil {
			fmt.Fprintf(to, "\n%s\n%s", s.Name, m.Describe(*s.Plan.Function))
		}
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Failure.Describe())
		}
	}
	return nil
}
