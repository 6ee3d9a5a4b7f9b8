package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// recorder keeps the batches of a run, as far as a picture or a file of events
// wants them.
type recorder struct {
	batches []simulate.Batch
	wanted  bool
	left    int // out, for want of room
}

// mostBatches bounds what is kept of a run: some hundred megabytes.
const mostBatches = 2_000_000

func (f *simulateFlags) recorder() *recorder {
	return &recorder{wanted: f.plot != "" || f.trace != ""}
}

func (r *recorder) observer() simulate.Observer {
	if !r.wanted {
		return simulate.Observer{}
	}
	return simulate.Observer{Batch: func(b simulate.Batch) {
		if len(r.batches) == mostBatches {
			r.left++
			return
		}
		r.batches = append(r.batches, b)
	}}
}

// write makes the files that flags name.
func (r *recorder) write(d *Deps, f *simulateFlags, result simulate.Result) error {
	if r.left > 0 {
		fmt.Fprintf(d.Stderr, "only the first %d batches were kept, %d more were not; take a shorter --duration to have all\n", mostBatches, r.left)
	}
	if f.trace != "" {
		if err := osutil.ReplaceFile(f.trace, simulate.TraceEvents(result, r.batches), 0o644); err != nil {
			return fmt.Errorf("the trace was not written: %w", err)
		}
		fmt.Fprintf(d.Stderr, "wrote %s\n", f.trace)
	}
	if f.plot == "" {
		return nil
	}
	g, err := f.gantt(result, r.batches)
	if err != nil {
		return err
	}
	return writePicture(d, f.plot, g)
}

// Bounds of a drawing of batches.
const (
	drawnBatches = 30 // of a device, where the time to show is not given
	drawnDevices = 40
)

// gantt chooses what to draw.
func (f *simulateFlags) gantt(result simulate.Result, batches []simulate.Batch) (chart.Gantt, error) {
	if len(batches) == 0 {
		return chart.Gantt{}, fmt.Errorf("--plot: no batch ran, so there is nothing to draw")
	}
	devices := min(drawnDevices, len(result.Devices))
	from, span := f.window(batches, len(result.Devices))
	g := chart.Gantt{
		Title:  fmt.Sprintf("Batches on %s, dispatch %s", quantity.Count(len(result.Devices), "device"), result.Pipelines[0].Dispatch),
		XLabel: "seconds", From: from.Seconds(), To: (from + span).Seconds(),
		Footer: fmt.Sprintf("%s to %s of the run. A bar is a batch; the number in it is how many requests it holds.", from.Round(time.Millisecond), (from + span).Round(time.Millisecond)),
	}
	if devices < len(result.Devices) {
		g.Footer += fmt.Sprintf(" The first %d devices are shown.", devices)
	}
	for _, d := range result.Devices[:devices] {
		g.Rows = append(g.Rows, d.Device)
	}
	for _, b := range batches {
		name := b.Module
		if len(result.Pipelines) > 1 {
			name = b.Pipeline + "." + b.Module
		}
		if b.Device >= devices || b.End <= from || b.Begin >= from+span {
			continue
		}
		kind := slices.Index(g.Names, name)
		if kind < 0 {
			kind = len(g.Names)
			g.Names = append(g.Names, name)
		}
		g.Bars = append(g.Bars, chart.Bar{Row: b.Device, Kind: kind, From: b.Begin.Seconds(), To: b.End.Seconds(), Label: fmt.Sprint(b.Size)})
	}
	if len(g.Bars) == 0 {
		return g, fmt.Errorf("--plot: no batch ran from %v to %v; choose another time with --plot-from and --plot-span", from, from+span)
	}
	return g, nil
}

// window is the time that is drawn.
func (f *simulateFlags) window(batches []simulate.Batch, devices int) (from, span time.Duration) {
	length := batches[len(batches)-1].End - batches[0].Begin
	from, span = f.plotFrom, f.plotSpan
	if span == 0 {
		span = max(1, time.Duration(float64(length)/float64(len(batches))*float64(devices)*drawnBatches))
		span = min(span, length)
	}
	if from == 0 {
		from = batches[0].Begin + (length-span)/2
	}
	return from, span
}

// stations are the recorders of all that a simulation plays.
type stations struct {
	wanted bool
	all    []station
}

type station struct {
	name string
	*recording.Recorder
}

// of makes the recorders of a service, whose only station is called after it; one
// without a name has stations with names of their own. It is nil where nothing is
// recorded.
func (s *stations) of(service string) func(name string) *recording.Recorder {
	if !s.wanted {
		return nil
	}
	return func(name string) *recording.Recorder {
		if service != "" {
			name = service
		}
		r := &recording.Recorder{}
		s.all = append(s.all, station{name, r})
		return r
	}
}

// write writes what was recorded to the file.
func (s *stations) write(d *Deps, path string) error {
	if !s.wanted {
		return nil
	}
	made := recording.Recording{Head: recording.Head{Program: "harpagon " + d.Version + " simulate"}}
	for _, one := range s.all {
		made.Stations = append(made.Stations, recording.Station{Name: one.name, Parts: one.Parts()})
	}
	text, err := made.Append(nil)
	if err == nil {
		err = osutil.ReplaceFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("the recording was not written: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	return nil
}
