package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// replayed is the JSON of the command.
type replayed struct {
	Program  string           `json:"program"`
	Written  *time.Time       `json:"written,omitempty"`
	Same     bool             `json:"same"`
	Stations []replayedModule `json:"stations"`
}

type replayedModule struct {
	Station    string              `json:"station"`
	Policy     string              `json:"policy"`
	Steps      int                 `json:"steps"`
	Actions    int                 `json:"actions"`
	Batches    int                 `json:"batches"`
	FromMs     float64             `json:"from_ms"`
	ToMs       float64             `json:"to_ms"`
	Same       bool                `json:"same"`
	Difference *replayedDifference `json:"difference,omitempty"`
}

type replayedDifference struct {
	Step     int     `json:"step"`
	AtMs     float64 `json:"at_ms"`
	Event    string  `json:"event"`
	Recorded *string `json:"recorded"`
	Decided  *string `json:"decided"`
	State    string  `json:"state"`
}

type replayFlags struct {
	plot     string
	from     time.Duration
	span     time.Duration
	stations []string
	asJSON   bool
}

// newReplayCommand makes harpagon replay.
func newReplayCommand(d *Deps) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Repeat a dispatcher's decisions from a recording, and compare",
		Long: `Runs the dispatch policies of a recording again on the recorded events, and compares
their decisions with the recorded ones. It prints that all are the same, or the first
that differs, with the event before it and the state of the policy. It exits with 1
where something differs.

Recordings are written by up, gateway and simulate with --record, and by a
running up or gateway when it gets the signal SIGUSR1.`,
		Example: `  harpagon simulate pipeline.hcl --record run.harprec
  harpagon replay run.harprec
  harpagon replay bad-minute.harprec --plot batches.svg --station traffic/detect`,
		Args: cobra.ExactArgs(1),
	}
	flags := c.Flags()
	flags.StringVar(&f.plot, "plot", "", "draw the recorded batches over time and executor to a `file` that ends in .svg or .png")
	flags.DurationVar(&f.from, "plot-from", 0, "where the drawing begins, from the beginning of the recording; at the end, or around the first difference, when left out")
	flags.DurationVar(&f.span, "plot-span", 0, "the time that it shows; about thirty batches of an executor when left out")
	flags.StringSliceVar(&f.stations, "station", nil, "only this `PIPELINE/MODULE`; may be repeated")
	flags.BoolVar(&f.asJSON, "json", false, "print the result as JSON")
	c.RunE = func(_ *cobra.Command, args []string) error { return f.run(d, args[0]) }
	return c
}

func (f *replayFlags) run(d *Deps, path string) error {
	if err := checkPicture(f.plot); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the recording cannot be read: %w", err)
	}
	r, err := recording.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	stations, err := f.chosen(r.Stations)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out := replayed{Program: r.Program, Same: true, Stations: []replayedModule{}}
	if !r.Written.IsZero() {
		out.Written = &r.Written
	}
	var all []recording.Replayed
	for _, s := range stations {
		one, err := recording.Replay(s)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, one)
		out.Same = out.Same && one.Difference == nil
		out.Stations = append(out.Stations, replayedOf(one))
	}
	if err := f.print(d, out, all); err != nil {
		return err
	}
	if f.plot != "" {
		g, err := f.gantt(all)
		if err != nil {
			return err
		}
		if err := writePicture(d, f.plot, g); err != nil {
			return err
		}
	}
	if !out.Same {
		return ErrReported
	}
	return nil
}

// chosen are the stations that flags select.
func (f *replayFlags) chosen(all []recording.Station) ([]recording.Station, error) {
	if len(f.stations) == 0 {
		return all, nil
	}
	var found []recording.Station
	for _, name := range f.stations {
		before := len(found)
		var names []string
		for _, s := range all {
			if names = append(names, s.Name); s.Name == name {
				found = append(found, s)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("--station %s is not in the recording; it has %v", name, names)
		}
	}
	return found, nil
}

func replayedOf(r recording.Replayed) replayedModule {
	m := replayedModule{
		Station: r.Station, Steps: r.Steps, Actions: r.Actions, Batches: len(r.Batches),
		FromMs: quantity.Millis(r.From), ToMs: quantity.Millis(r.To), Same: r.Difference == nil,
	}
	if n := len(r.Policies); n > 0 {
		m.Policy = r.Policies[n-1]
	}
	if diff := r.Difference; diff != nil {
		m.Difference = &replayedDifference{Step: diff.Step, AtMs: quantity.Millis(diff.Now), Event: diff.Event.String(), State: diff.State}
		if diff.Recorded != nil {
			text := diff.Recorded.String()
			m.Difference.Recorded = &text
		}
		if diff.Decided != nil {
			text := diff.Decided.String()
			m.Difference.Decided = &text
		}
	}
	return m
}

func (f *replayFlags) print(d *Deps, out replayed, all []recording.Replayed) error {
	if f.asJSON {
		e := json.NewEncoder(d.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	for _, r := range all {
		fmt.Fprint(d.Stdout, r.Describe())
	}
	if len(all) == 0 {
		fmt.Fprintln(d.Stdout, "the recording has no stations: nothing was served")
	}
	return nil
}

// gantt draws the recorded batches: a row for each executor of each station.
func (f *replayFlags) gantt(all []recording.Replayed) (chart.Gantt, error) {
	g := chart.Gantt{Title: "Recorded batches", XLabel: "seconds"}
	rows := map[string]int{}
	count := 0
	first, last, around := time.Duration(-1), time.Duration(0), time.Duration(-1)
	for _, r := range all {
		for _, b := range r.Batches {
			key := fmt.Sprintf("%s %d", r.Station, b.Executor)
			if _, ok := rows[key]; !ok && len(rows) < drawnDevices {
				rows[key] = len(rows)
				g.Rows = append(g.Rows, key)
			}
			if count++; first < 0 || b.Start < first {
				first = b.Start
			}
			last = max(last, b.End)
		}
		if r.Difference != nil && around < 0 {
			around = r.Difference.Now
		}
	}
	if count == 0 {
		return g, fmt.Errorf("--plot: no batch was recorded, so there is nothing to draw")
	}
	span := f.span
	if span <= 0 {
		span = max(1, min(last-first, time.Duration(float64(last-first)/float64(count)*float64(len(rows))*drawnBatches)))
	}
	from := last - span
	if around >= 0 {
		from = max(first, around-span/2)
	}
	if f.from > 0 {
		from = first + f.from
	}
	for kind, r := range all {
		g.Names = append(g.Names, r.Station)
		for _, b := range r.Batches {
			row, ok := rows[fmt.Sprintf("%s %d", r.Station, b.Executor)]
			if ok && b.End > from && b.Start < from+span {
				g.Bars = append(g.Bars, chart.Bar{Row: row, Kind: kind, From: b.Start.Seconds(), To: b.End.Seconds(), Label: fmt.Sprint(b.Size)})
			}
		}
	}
	g.From, g.To = from.Seconds(), (from + span).Seconds()
	g.Footer = "A bar is a batch; the number in it is how many requests it holds."
	if len(g.Bars) == 0 {
		return g, fmt.Errorf("--plot: no batch ran from %v to %v; choose another time with --plot-from and --plot-span", from, from+span)
	}
	return g, nil
}
