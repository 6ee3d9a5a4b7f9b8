package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

type reproduceFlags struct {
	list, full, all    bool
	asJSON, asMarkdown bool
	out, plot, trace   string
	from               string
	metrics            []string
	printed            bool
	as                 string
	explain            bool
}

// newReproduceCommand makes harpagon reproduce.
func newReproduceCommand(d *Deps) *cobra.Command {
	var f reproduceFlags
	all := experiments.All()
	c := &cobra.Command{
		Use:   "reproduce [ID...]",
		Short: "Reproduce figures and tables of the papers and of the docs",
		Long: `Measures what the papers and the docs of Harpagon show, and prints it as tables, with
what the papers print beside it: a small part of each, or with --full the whole.
--list names the figures, how long the whole of each takes on two cores, which of them
show other figures of the papers, and why the rest is not made. An ID such as symphony
stands for all that begin with symphony/; --all makes every figure. After several
figures comes a table of how long each took, and how far it is from the paper.

Assumptions have names: they stand for what the papers leave open, or their systems do
otherwise than ours. --as paper makes the papers' figures with those of the papers, as
far as they are known, --as authors with those of the authors' programs, --as ours with
none. --explain tries assumptions alone, two by two and all of a paper's, and reports
which of them bring a number to the printed one.

Random draws are the same everywhere, so what is planned or simulated can be repeated
to the digit. Times are those of this machine: processor time where the system measures
it, so that other work hardly matters.`,
		Example: `  harpagon reproduce --list
  harpagon reproduce symphony/table4
  harpagon reproduce symphony planning/growth --full --out figures
  harpagon reproduce harpagon/figure6 --as ours
  harpagon reproduce harpagon/figure6 --explain
  harpagon reproduce harpagon piccolo --markdown > papers.md
  harpagon reproduce --all --json > all.json
  harpagon reproduce symphony --from all.json --markdown
  harpagon reproduce harmonybatch/traces --trace invocations_per_function_md.anon.d01.csv`,
		ValidArgsFunction: func(_ *cobra.Command, given []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return slices.DeleteFunc(figureIDs(all), func(id string) bool {
				return slices.Contains(given, id) || !strings.HasPrefix(id, begun)
			}), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.list, "list", false, "name the figures instead of making them")
	flags.BoolVar(&f.all, "all", false, "make every figure")
	flags.BoolVar(&f.full, "full", false, "make the whole of each, in the time that --list states; without it a small part, in seconds to a minute")
	flags.StringVar(&f.as, "as", experiments.AsPaper, "the `profile` of assumptions: "+strings.Join(experiments.Profiles(), ", "))
	flags.BoolVar(&f.explain, "explain", false, "find the assumptions that close the gaps to printed numbers, instead of printing tables")
	flags.BoolVar(&f.asJSON, "json", false, "print the rows as JSON")
	flags.BoolVar(&f.asMarkdown, "markdown", false, "print the tables as Markdown")
	flags.StringArrayVar(&f.metrics, "metric", nil, "print only this `metric` of the figures that have it, such as \"goodput\"; may be repeated. --out and --plot keep all")
	flags.BoolVar(&f.printed, "printed", false, "print only numbers that a paper prints, each with its ratio; --out and --plot keep all")
	flags.StringVar(&f.out, "out", "", "write each figure to `folder`, too: ID.md, ID.csv, and ID.svg where it can be drawn")
	flags.StringVar(&f.plot, "plot", "", "draw each figure that can be drawn to `folder`: ID.svg")
	flags.StringVar(&f.from, "from", "", "a `file` that --json wrote: show what it has, and make only figures that it lacks")
	flags.StringVar(&f.trace, "trace", "", "for harmonybatch/traces: a `file` of requests a minute, as the Azure Functions trace has them, in place of drawn ones")
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.asJSON && f.asMarkdown {
			return wrongUse(c, errors.New("--json and --markdown exclude each other; take one of them"))
		}
		if f.list {
			return f.writeList(d, all, args)
		}
		if f.all == (len(args) > 0) {
			return wrongUse(c, errors.New("name the figures to make, or all of them by --all; harpagon reproduce --list names them"))
		}
		if f.explain && (f.asMarkdown || f.out != "" || f.plot != "" || c.Flags().Changed("as")) {
			return wrongUse(c, errors.New("--explain prints text or JSON, and plays all profiles; leave out --as, --markdown, --out and --plot"))
		}
		chosen, err := choose(all, args)
		if err != nil {
			return err
		}
		return f.make(c.Context(), d, chosen, args)
	}
	return c
}

// choose finds the figures by ID, each once; all without any ID.
func choose(all []experiments.Figure, ids []string) ([]experiments.Figure, error) {
	if len(ids) == 0 {
		return all, nil
	}
	var chosen []experiments.Figure
	for _, id := range ids {
		id = strings.TrimSuffix(id, "/")
		found := experiments.Find(all, id)
		for _, p := range experiments.FindElsewhere(id) {
			switch {
			case p.ID != id:
			case p.Why != "":
				return nil, fmt.Errorf("%s cannot be made: it %s", p.ID, p.Why)
			default:
				found = experiments.Find(all, p.In)
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no figure %q.%s harpagon reproduce --list names all", id, pipelines.Suggest(id, figureIDs(all)))
		}
		for _, one := range found {
			if !slices.ContainsFunc(chosen, func(f experiments.Figure) bool { return f.ID == one.ID }) {
				chosen = append(chosen, one)
			}
		}
	}
	return chosen, nil
}

func figureIDs(all []experiments.Figure) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// figureJSON is a figure in the JSON of the command; a list has no rows.
type figureJSON struct {
	ID      string            `json:"id"`
	Title   string            `json:"title"`
	Seconds int               `json:"seconds"`
	Took    float64           `json:"took,omitempty"` // seconds
	Rows    []experiments.Row `json:"rows,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Assumed []string          `json:"assumed,omitempty"`
	Gaps    []experiments.Gap `json:"gaps,omitempty"`
}

// writeList names the figures with the IDs, all without any, and what of the papers is
// shown by them or not at all.
func (f *reproduceFlags) writeList(d *Deps, all []experiments.Figure, ids []string) error {
	chosen, elsewhere := all, experiments.Elsewhere()
	if len(ids) > 0 {
		chosen, elsewhere = nil, nil
		for _, id := range ids {
			id = strings.TrimSuffix(id, "/")
			figures, others := experiments.Find(all, id), experiments.FindElsewhere(id)
			if len(figures)+len(others) == 0 {
				_, err := choose(all, []string{id})
				return err
			}
			chosen, elsewhere = append(chosen, figures...), append(elsewhere, others...)
		}
	}
	list := []figureJSON{}
	g := experiments.Grid{Header: []string{"id", "takes", "title"}}
	for _, one := range chosen {
		list = append(list, figureJSON{ID: one.ID, Title: one.Title, Seconds: one.Seconds})
		g.Rows = append(g.Rows, []string{one.ID, (time.Duration(one.Seconds) * time.Second).String(), one.Title})
	}
	switch {
	case f.asJSON:
		return writeJSON(d.Stdout, map[string]any{"figures": list, "elsewhere": elsewhere})
	case f.asMarkdown:
		for _, p := range elsewhere {
			g.Rows = append(g.Rows, []string{p.ID, "-", p.Title + ": " + where(p)})
		}
		_, err := io.WriteString(d.Stdout, g.Markdown())
		return err
	}
	const before = 33 // columns
	for _, row := range g.Rows {
		title := wrapped(row[2], lineWidth-before, strings.Repeat(" ", before))
		fmt.Fprintf(d.Stdout, "%-22s %8s  %s\n", row[0], row[1], title)
	}
	for _, p := range elsewhere {
		title := wrapped(p.Title+": "+where(p), lineWidth-before, strings.Repeat(" ", before))
		fmt.Fprintf(d.Stdout, "%-22s %8s  %s\n", p.ID, "-", title)
	}
	return nil
}

// where reports where a figure of a paper is found.
func where(p experiments.Printed) string {
	if p.In != "" {
		return "see " + p.In
	}
	return p.Why
}

// make makes the figures one after the other. Each is printed and written when
// it is done, so that one who stops it keeps what there is.
func (f *reproduceFlags) make(ctx context.Context, d *Deps, chosen []experiments.Figure, ids []string) error {
	command, e := f.command(ids), d.Env()
	e.Quick, e.Trace = !f.full, f.trace
	if f.explain {
		return f.explainAll(ctx, d, e, chosen)
	}
	var err error
	if e.Assumed, err = experiments.Assume(f.as); err != nil {
		return fmt.Errorf("--as: %w", err)
	}
	recorded, err := f.recorded()
	if err != nil {
		return err
	}
	made, began := []figureJSON{}, d.now()
	var lines, unprinted []experiments.Made
	head := f.head(command)
	for i := range chosen {
		one := &chosen[i]
		fmt.Fprintf(d.Stderr, "%s (%d of %d)\n", one.ID, i+1, len(chosen))
		var r experiments.Result
		start := d.now()
		before := recorded[one.ID]
		if before != nil {
			r, err = one.Recall(before.Rows, before.Notes, before.Assumed)
		} else {
			r, err = one.Run(ctx, e)
		}
		if err != nil {
			if errors.Is(err, context.Canceled) {
				err = fmt.Errorf("stopped; %d of %d figures are done", i, len(chosen))
			} else {
				err = fmt.Errorf("%s: %w", one.ID, err)
			}
			break
		}
		took := d.now() - start
		if before != nil {
			took = time.Duration(before.Took * float64(time.Second))
		}
		shown, line := r.Only(f.metrics), experiments.Made{ID: one.ID, Took: took, Rows: r.Rows}
		if f.printed {
			shown = shown.Printed()
		}
		if f.printed && len(shown.Rows) == 0 {
			unprinted = append(unprinted, line)
		} else {
			lines = append(lines, line)
		}
		made = append(made, figureJSON{ID: one.ID, Title: one.Title, Seconds: one.Seconds, Took: took.Seconds(), Rows: shown.Rows, Notes: r.Sentences(), Assumed: r.Held})
		switch {
		case f.asJSON, f.printed && len(shown.Rows) == 0:
		case f.asMarkdown:
			fmt.Fprint(d.Stdout, head, one.Markdown(shown), "\n")
			head = ""
		default:
			fmt.Fprint(d.Stdout, one.Text(shown), "\n")
		}
		if err = f.keep(d, one, r, f.head(command)); err != nil {
			break
		}
	}
	if f.asJSON {
		err = errors.Join(err, writeJSON(d.Stdout, map[string]any{"figures": made}))
	}
	fmt.Fprintf(d.Stderr, "%d of %d figures in %s\n", len(made), len(chosen), (d.now() - began).Round(time.Second))
	if g := experiments.Ledger(lines); len(g.Rows) > 1 && g.Numbers > 0 && f.asMarkdown {
		fmt.Fprint(d.Stdout, "## Figures beside the papers\n\n", g.Markdown(), "\n")
	} else if len(g.Rows) > 1 && !f.asJSON {
		fmt.Fprint(d.Stdout, "Figures beside the papers\n\n", g.Text())
	}
	if len(unprinted) > 0 && !f.asJSON {
		fmt.Fprint(d.Stdout, "The papers print no number of these; harpagon reproduce ID shows ours: ", experiments.Times(unprinted), ".\n\n")
	}
	var others []experiments.Printed
	for _, id := range ids {
		others = append(others, experiments.FindElsewhere(id)...)
	}
	if g := experiments.Others(others); f.asMarkdown && err == nil && len(chosen) > 1 && len(g.Rows) > 0 {
		fmt.Fprint(d.Stdout, "## Other figures and tables of the papers\n\n", g.Markdown(), "\n")
	}
	if g := experiments.Glossary(chosen); f.asMarkdown && err == nil && len(g.Rows) > 0 {
		fmt.Fprint(d.Stdout, "## Assumptions\n\n", g.Markdown())
	}
	return err
}

// recorded are the figures of the file that --from names, by ID.
func (f *reproduceFlags) recorded() (map[string]*figureJSON, error) {
	if f.from == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.from)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	var file struct {
		Figures []figureJSON `json:"figures"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("--from: %s is not what harpagon reproduce --json prints: %w", f.from, err)
	}
	all := map[string]*figureJSON{}
	for i := range file.Figures {
		all[file.Figures[i].ID] = &file.Figures[i]
	}
	return all, nil
}

// explainAll explains the gaps of the figures one after the other.
func (f *reproduceFlags) explainAll(ctx context.Context, d *Deps, e *experiments.Env, chosen []experiments.Figure) error {
	all := []figureJSON{}
	for i := range chosen {
		fmt.Fprintf(d.Stderr, "%s (%d of %d)\n", chosen[i].ID, i+1, len(chosen))
		x, err := chosen[i].Explain(ctx, e)
		if err != nil {
			return fmt.Errorf("%s: %w", chosen[i].ID, err)
		}
		all = append(all, figureJSON{ID: x.ID, Title: chosen[i].Title, Seconds: chosen[i].Seconds, Gaps: x.Gaps})
		if !f.asJSON {
			fmt.Fprint(d.Stdout, x.Describe())
		}
	}
	if f.asJSON {
		return writeJSON(d.Stdout, map[string]any{"figures": all})
	}
	return nil
}

// keep writes a figure to the chosen folder.
func (f *reproduceFlags) keep(d *Deps, one *experiments.Figure, r experiments.Result, head string) error {
	if f.plot != "" && f.plot != f.out && one.Picture != nil {
		if err := drawFigures(d, "--plot", filepath.Join(f.plot, filepath.FromSlash(one.ID)), one, r); err != nil {
			return err
		}
	}
	if f.out == "" {
		return nil
	}
	name := filepath.Join(f.out, filepath.FromSlash(one.ID))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	err := osutil.ReplaceFile(name+".md", []byte(head+one.Markdown(r)), 0o666)
	if err == nil {
		err = writeCSV(name+".csv", r)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s.md and .csv\n", name)
	if one.Picture == nil {
		return nil
	}
	return drawFigures(d, "--out", name, one, r)
}

// drawFigures writes the picture of a figure, for a flag.
func drawFigures(d *Deps, flag, name string, one *experiments.Figure, r experiments.Result) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return writePicture(d, name+".svg", drawn(one, r))
}

func writeCSV(name string, r experiments.Result) error {
	var text bytes.Buffer
	if err := experiments.WriteCSV(&text, r); err != nil {
		return err
	}
	return osutil.ReplaceFile(name, text.Bytes(), 0o666)
}

// head reports how, where and when Markdown was made.
func (f *reproduceFlags) head(command string) string {
	return fmt.Sprintf("Made by `%s` on %s, %d cores (%s/%s), %s.\n\n",
		command, runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.DateOnly))
}

// command is the command line that prints the same.
func (f *reproduceFlags) command(ids []string) string {
	words := append([]string{"harpagon reproduce"}, ids...)
	if f.all {
		words = append(words, "--all")
	}
	if f.full {
		words = append(words, "--full")
	}
	if f.as != experiments.AsPaper {
		words = append(words, "--as", f.as)
	}
	if f.from != "" {
		words = append(words, "--from", filepath.Base(f.from))
	}
	if f.trace != "" {
		words = append(words, "--trace", filepath.Base(f.trace))
	}
	if f.printed {
		words = append(words, "--printed")
	}
	for _, m := range f.metrics {
		words = append(words, "--metric", strconv.Quote(m))
	}
	return strings.Join(append(words, "--markdown"), " ")
}

// across is how many panels stand in a row of a picture, at most.
const across = 4

// drawn makes the picture of a figure: a panel for each group of its rows.
func drawn(f *experiments.Figure, r experiments.Result) chart.Picture {
	var panels []chart.Panel
	var systems []string
	for _, row := range r.Rows {
		x, ok := row.Setting.Number(f.Picture.X)
		if !ok || row.Metric != f.Picture.Metric {
			continue
		}
		if !slices.Contains(systems, row.System) {
			systems = append(systems, row.System)
		}
		panel := panelOfRow(&panels, f.Picture, &row)
		line := lineOf(panel, row.System, slices.Index(systems, row.System))
		line.Points = append(line.Points, chart.Point{X: x, Y: max(row.Ours, leastShown)})
	}
	wide := min(across, len(panels))
	for wide > 1 && len(panels)%wide != 0 {
		wide--
	}
	var rows [][]chart.Panel
	for row := range slices.Chunk(panels, max(1, wide)) {
		rows = append(rows, row)
	}
	return chart.Picture{Title: f.Title, Footer: f.Picture.Footer, Rows: rows}
}

// leastShown is the least value on a logarithmic axis.
const leastShown = 0.001

// panelOfRow finds the panel that a row belongs to, or adds it.
func panelOfRow(panels *[]chart.Panel, p *experiments.Picture, row *experiments.Row) *chart.Panel {
	var words []string
	for _, name := range p.Panel {
		words = append(words, strings.ReplaceAll(name, "_", " ")+" "+row.Setting.Text(name))
	}
	title := strings.Join(words, ", ")
	if len(p.Panel) == 1 && p.Panel[0] == "group" {
		title = row.Setting.Text("group")
	}
	k := slices.IndexFunc(*panels, func(c chart.Panel) bool { return c.Title == title })
	if k < 0 {
		k = len(*panels)
		label := row.Metric
		if row.Unit != "" {
			label += " in " + row.Unit
		}
		*panels = append(*panels, chart.Panel{Title: title, XLabel: strings.ReplaceAll(p.X, "_", " "), YLabel: label, LogX: p.LogX, LogY: p.LogY})
	}
	return &(*panels)[k]
}

// lineOf finds the line of a system, or adds it.
func lineOf(panel *chart.Panel, system string, colour int) *chart.Line {
	k := slices.IndexFunc(panel.Lines, func(l chart.Line) bool { return l.Name == system })
	if k < 0 {
		k = len(panel.Lines)
		panel.Lines = append(panel.Lines, chart.Line{Name: system, Colour: colour})
	}
	return &panel.Lines[k]
}
