package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

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
}

// gpuRow leaves out what the driver does not tell.
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
			OfferMiB: mib(r.Capacity), HeldMiB: mib(r.Memory),
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
		// Without a GPU, what executors say they hold is all that is known.
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
	if err := w.Flush(); err != nil || idle == "" {
		return err
	}
	_, err := fmt.Fprintf(to, "and %s without executors\n", idle)
	return err
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
