package experiments

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Names of what is in every row beside its setting, for a Layout.
const (
	System = "system"
	Metric = "metric"
)

// Layout arranges the numbers of a table: Down names the columns that stand before the
// numbers, Across what heads the numbers. Each is System, Metric or the name of a value of
// the settings. Rows that differ in anything else belong to different tables.
type Layout struct{ Down, Across []string }

// Tables are the rows as one or several tables.
func (f *Figure) Tables(r Result) []Grid {
	if r.beside {
		return []Grid{r.besides()}
	}
	var tables []*pivot
	for i := range r.Rows {
		row := &r.Rows[i]
		caption := row.rest(f.Layout)
		k := slices.IndexFunc(tables, func(t *pivot) bool { return t.caption == caption })
		if k < 0 {
			k = len(tables)
			tables = append(tables, &pivot{caption: caption, layout: f.Layout})
		}
		tables[k].add(row)
	}
	grids := make([]Grid, len(tables))
	for i, t := range tables {
		grids[i] = t.grid()
	}
	return grids
}

// besides is the table of a result that Printed made.
func (r *Result) besides() Grid {
	g := Grid{Header: []string{"number", "ours", "paper", "ratio", "where it is far, what is known"}, Tail: 1, Numbers: len(r.Rows)}
	for i := range r.Rows {
		row := &r.Rows[i]
		known := ""
		if row.far() {
			if known = unknown; r.gap(row) != nil {
				known = r.gap(row).Known()
			}
		}
		n := quantity.Number
		g.Rows = append(g.Rows, []string{named(row.System, row.value(Metric), row.titledPlace()), n(row.Ours), n(*row.Paper), n(*row.Ratio), known})
	}
	return g
}

// value is what the row has under the name, as text.
func (r *Row) value(name string) string {
	switch name {
	case System:
		return r.System
	case Metric:
		if r.Unit != "" {
			return r.Metric + " (" + r.Unit + ")"
		}
		return r.Metric
	}
	return r.Setting.Text(name)
}

// rest reports what neither goes down nor across.
func (r *Row) rest(l Layout) string {
	placed := func(name string) bool { return slices.Contains(l.Down, name) || slices.Contains(l.Across, name) }
	var words []string
	if !placed(Metric) {
		words = append(words, r.value(Metric))
	}
	for _, v := range r.Setting {
		if !placed(v.Name) {
			words = append(words, strings.ReplaceAll(v.Name, "_", " ")+" "+r.value(v.Name))
		}
	}
	if !placed(System) && r.System != "" {
		words = append(words, r.System)
	}
	return strings.Join(words, ", ")
}

// pivot is a table that is being filled.
type pivot struct {
	caption string
	layout  Layout
	lines   []line
	columns []column
}

type line struct {
	cells   []string
	numbers map[string]*Row // by what heads them
}

type column struct {
	head    string
	printed bool // some number of it is in the paper
}

func (p *pivot) add(r *Row) {
	values := func(names []string) []string {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = r.value(name)
		}
		return list
	}
	down, head := values(p.layout.Down), strings.Join(values(p.layout.Across), ", ")
	at := slices.IndexFunc(p.lines, func(l line) bool { return slices.Equal(l.cells, down) })
	if at < 0 {
		at = len(p.lines)
		p.lines = append(p.lines, line{cells: down, numbers: map[string]*Row{}})
	}
	p.lines[at].numbers[head] = r
	k := slices.IndexFunc(p.columns, func(c column) bool { return c.head == head })
	if k < 0 {
		k = len(p.columns)
		p.columns = append(p.columns, column{head: head})
	}
	p.columns[k].printed = p.columns[k].printed || r.Paper != nil
}

func (p *pivot) grid() Grid {
	g := Grid{Caption: p.caption, Prose: len(p.layout.Down) - 1}
	for _, name := range p.layout.Down {
		g.Header = append(g.Header, strings.ReplaceAll(name, "_", " "))
	}
	for _, c := range p.columns {
		if g.Header = append(g.Header, c.head); c.printed {
			g.Header = append(g.Header, "paper")
		}
	}
	for _, l := range p.lines {
		cells := slices.Clone(l.cells)
		for _, c := range p.columns {
			ours, paper := "-", "-"
			if r := l.numbers[c.head]; r != nil {
				g.Numbers++
				ours = quantity.Number(r.Ours)
				if r.Paper != nil {
					paper = quantity.Number(*r.Paper)
				}
			}
			if cells = append(cells, ours); c.printed {
				cells = append(cells, paper)
			}
		}
		g.Rows = append(g.Rows, cells)
	}
	return g
}

// Text writes the figure for terminals.
func (f *Figure) Text(r Result) string {
	parts := []string{f.heading() + "\n"}
	for _, g := range f.Tables(r) {
		parts = append(parts, g.captioned("%s\n")+g.Text())
	}
	return strings.Join(append(parts, paragraphs(r.Sentences())...), "\n")
}

// Markdown writes the figure for documents.
func (f *Figure) Markdown(r Result) string {
	parts := []string{"## " + f.Title + "\n"}
	if r.beside {
		parts[0] = "## " + f.heading() + "\n"
	}
	for _, g := range f.Tables(r) {
		parts = append(parts, g.captioned("%s:\n\n")+g.Markdown())
	}
	return strings.Join(append(parts, paragraphs(r.Sentences())...), "\n")
}

func (f *Figure) heading() string { return f.Title + " [" + f.ID + "]" }

func paragraphs(notes []string) []string {
	var list []string
	for _, n := range notes {
		list = append(list, n+"\n")
	}
	return list
}

func (g Grid) captioned(format string) string {
	if g.Caption == "" {
		return ""
	}
	return fmt.Sprintf(format, g.Caption)
}

// WriteCSV writes the rows, a line each: the values of the settings first.
func WriteCSV(w io.Writer, r Result) error {
	var names []string
	for _, row := range r.Rows {
		for _, v := range row.Setting {
			if !slices.Contains(names, v.Name) {
				names = append(names, v.Name)
			}
		}
	}
	out := csv.NewWriter(w)
	lines := [][]string{append(slices.Clone(names), "system", "metric", "unit", "ours", "paper")}
	exact := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, row := range r.Rows {
		var cells []string
		for _, name := range names {
			cells = append(cells, row.value(name))
		}
		paper := ""
		if row.Paper != nil {
			paper = exact(*row.Paper)
		}
		lines = append(lines, append(cells, row.System, row.Metric, row.Unit, exact(row.Ours), paper))
	}
	return out.WriteAll(lines)
}

// Grid is a table of texts that can be printed in two ways.
type Grid struct {
	Caption string
	Header  []string
	Rows    [][]string
	Prose   int // columns after the first that hold words
	Tail    int // columns at the end that hold words
	Numbers int // measured ones in it
}

// words reports whether column i holds words.
func (g Grid) words(i int) bool { return i <= g.Prose || i >= len(g.Header)-g.Tail }

// Text aligns columns for a terminal: words to the left, numbers to the right.
func (g Grid) Text() string {
	lines := append([][]string{g.Header}, g.Rows...)
	widths := make([]int, len(g.Header))
	for _, line := range lines {
		for i := range widths {
			widths[i] = max(widths[i], len(line[i]))
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range lines {
		for i, cell := range line {
			if g.words(i) {
				cell += strings.Repeat(" ", widths[i]-len(cell))
			}
			fmt.Fprintf(w, "%s\t", cell)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// Markdown writes the table for documents.
func (g Grid) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(g.Header)
	var rule []string
	for i := range g.Header {
		if g.words(i) {
			rule = append(rule, "---")
		} else {
			rule = append(rule, "---:")
		}
	}
	line(rule)
	for _, r := range g.Rows {
		line(r)
	}
	return b.String()
}
