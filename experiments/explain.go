package experiments

import (
	"context"
	_ "embed" // what Known reads
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Far is how far one of our numbers may be from the one that the paper prints, as a share
// of it, and still count as met.
const Far = 0.15

// leastClosed is the share of a gap that assumptions must close to be named for it.
const leastClosed = 0.25

// Gap is a number that is far from the printed one on our terms or on the paper's, and
// what assumptions make of it.
type Gap struct {
	Setting string   `json:"setting,omitempty"`
	System  string   `json:"system"`
	Metric  string   `json:"metric"`
	Paper   float64  `json:"paper"`
	Ours    float64  `json:"ours"`
	AsPaper float64  `json:"as_paper"` // under the assumptions of profile paper
	Alone   []Trial  `json:"alone,omitempty"`
	Best    *Trial   `json:"best,omitempty"`    // nil where none closes a quarter of the gap
	Untried []string `json:"untried,omitempty"` // assumptions that cannot be tried here
}

// Trial is the number under some assumptions.
type Trial struct {
	Assumed []string `json:"assumed"`
	Ours    float64  `json:"ours"`
}

// Explanation is all gaps of a figure.
type Explanation struct {
	ID   string `json:"id"`
	Gaps []Gap  `json:"gaps"`
}

// Explain makes the figure on our terms, under each of its assumptions, as the paper, and,
// where a number is far under all of these, under each two assumptions. It finds for each
// number that is far from the printed one the fewest of these assumptions that meet it, or
// those that come nearest.
func (f *Figure) Explain(ctx context.Context, e *Env) (Explanation, error) {
	var names, held, untried []string
	for _, a := range AssumptionsOf(f.ID) {
		if a.Untried {
			untried = append(untried, a.Name)
			continue
		}
		names = append(names, a.Name)
		if slices.Contains(a.As, AsPaper) {
			held = append(held, a.Name)
		}
	}
	var sets [][]string
	var runs []map[string]Row
	var order []Row
	var err error
	play := func(set ...string) {
		if err != nil {
			return
		}
		env := *e
		env.Assumed = set
		var r Result
		if r, err = f.Run(ctx, &env); err != nil {
			return
		}
		rows := map[string]Row{}
		for _, row := range r.Rows {
			rows[row.key()] = row
		}
		if sets, runs = append(sets, set), append(runs, rows); len(runs) == 1 {
			order = r.Rows
		}
	}
	out := Explanation{ID: f.ID}
	play()
	for _, one := range names {
		play(one)
	}
	alone := len(runs)
	if len(names) > 0 {
		play(held...)
	}
	if err != nil {
		return out, err
	}
	asPaper := runs[len(runs)-1]
	// Two at a time are tried for what neither one nor all of the profile meet.
	open := slices.ContainsFunc(order, func(row Row) bool {
		far := func(r map[string]Row) bool { other, ok := r[row.key()]; return ok && other.far() }
		return !slices.ContainsFunc(runs, func(r map[string]Row) bool { return !far(r) })
	})
	for i, one := range names {
		for _, other := range names[i+1:] {
			if open {
				play(one, other)
			}
		}
	}
	if err != nil {
		return out, err
	}
	for _, row := range order {
		last, ok := asPaper[row.key()]
		if row.Paper == nil || !row.far() && (!ok || !last.far()) {
			continue
		}
		g := Gap{Setting: row.place(), System: row.System, Metric: row.Metric, Paper: *row.Paper, Ours: row.Ours, AsPaper: last.Ours, Untried: untried}
		for i, set := range sets[1:] {
			other, ok := runs[i+1][row.key()]
			if !ok {
				continue
			}
			t := Trial{Assumed: set, Ours: other.Ours}
			if i+1 < alone {
				g.Alone = append(g.Alone, t)
			}
			if g.Best == nil || g.better(t, *g.Best) {
				g.Best = &t
			}
		}
		if g.Best != nil && !g.met(g.Best.Ours) && g.closes(g.Best.Ours) < leastClosed {
			g.Best = nil
		}
		out.Gaps = append(out.Gaps, g)
	}
	return out, nil
}

func (g *Gap) met(ours float64) bool { return math.Abs(ours/g.Paper-1) <= Far }

// closes is the share of the gap that a number closes.
func (g *Gap) closes(ours float64) float64 {
	return 1 - math.Abs(ours-g.Paper)/math.Abs(g.Ours-g.Paper)
}

// better prefers what meets the number by fewer assumptions, and then what is nearer.
func (g *Gap) better(a, b Trial) bool {
	if g.met(a.Ours) != g.met(b.Ours) {
		return g.met(a.Ours)
	}
	if g.met(a.Ours) && len(a.Assumed) != len(b.Assumed) {
		return len(a.Assumed) < len(b.Assumed)
	}
	return math.Abs(a.Ours-g.Paper) < math.Abs(b.Ours-g.Paper)
}

// Describe is the gap in one sentence.
func (g *Gap) Describe() string {
	n := quantity.Number
	return fmt.Sprintf("%s: %s is printed; %s as the paper; %s.", named(g.System, g.Metric, g.Setting), n(g.Paper), n(g.AsPaper), g.Known())
}

// Known is the number on our terms, and which assumptions meet the printed one.
func (g *Gap) Known() string {
	n, text := quantity.Number, ""
	if n(g.Ours) != n(g.AsPaper) {
		text = n(g.Ours) + " on our terms; "
	}
	switch {
	case g.met(g.Ours):
		var lost []string
		for _, t := range g.Alone {
			if !g.met(t.Ours) {
				lost = append(lost, t.Describe())
			}
		}
		if text += "met there"; len(lost) > 0 {
			text += ", and not with " + strings.Join(lost, ", ")
		}
	case g.Best != nil && g.met(g.Best.Ours) && g.met(g.AsPaper):
		text += "met with " + g.Best.Describe()
	case g.Best != nil && g.met(g.Best.Ours):
		text += "open: met by nothing but " + g.Best.Describe()
	case g.Best != nil:
		text += fmt.Sprintf("open: %.0f %% closed by %s", 100*g.closes(g.Best.Ours), g.Best.Describe())
	case len(g.Alone) > 0:
		text += "open: no assumption closes a quarter of it"
	default:
		text += "open"
	}
	if len(g.Untried) > 0 && !g.met(g.Ours) && (g.Best == nil || !g.met(g.Best.Ours)) {
		text += "; cannot be tried: " + strings.Join(g.Untried, ", ")
	}
	return text
}

// Describe names the assumptions, and the number under them.
func (t *Trial) Describe() string {
	return fmt.Sprintf("%s (%s)", strings.Join(t.Assumed, " and "), quantity.Number(t.Ours))
}

// named is a number's name: its system, its metric and where it was measured.
func named(system, metric, setting string) string {
	if setting == "" {
		return system + ", " + metric
	}
	return system + ", " + metric + ", " + setting
}

// Describe lists the gaps, and the assumptions that their sentences name.
func (x *Explanation) Describe() string {
	if len(x.Gaps) == 0 {
		return x.ID + ": every printed number is met.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", x.ID)
	for i := range x.Gaps {
		fmt.Fprintf(&b, "  %s\n", x.Gaps[i].Describe())
	}
	for _, a := range AssumptionsOf(x.ID) {
		fmt.Fprintf(&b, "  %s\n", a.Describe())
	}
	return b.String()
}

//go:embed gaps.json
var recordedGaps []byte

// Known are the gaps that a small part of each figure showed, as reproduce --explain
// recorded them.
func Known() (list []Explanation, err error) {
	var file struct {
		Figures []Explanation `json:"figures"`
	}
	err = json.Unmarshal(recordedGaps, &file)
	return file.Figures, err
}

// explained is the figure under no assumptions but its own, with what is known of its gaps
// beside what it finds.
func explained(f Figure, known []Explanation) Figure {
	run, own := f.Run, AssumptionsOf(f.ID)
	f.Run = func(ctx context.Context, e *Env) (Result, error) {
		env, held := *e, []string(nil)
		for _, a := range own {
			if e.Holds(a.Name) {
				held = append(held, a.Name)
			}
		}
		env.Assumed = held
		r, err := run(ctx, &env)
		r.Held = held
		for _, x := range known {
			if x.ID == f.ID {
				r.Gaps = x.Gaps
			}
		}
		return r, err
	}
	return f
}

// place is where the number was measured, in words.
func (r *Row) place() string {
	var words []string
	for _, v := range r.Setting {
		words = append(words, r.Setting.Text(v.Name))
	}
	return strings.Join(words, ", ")
}

// titledPlace is the place, with the names of its numbers.
func (r *Row) titledPlace() string {
	var words []string
	for _, v := range r.Setting {
		if _, ok := r.Setting.Number(v.Name); ok {
			words = append(words, strings.ReplaceAll(v.Name, "_", " ")+" "+r.Setting.Text(v.Name))
		} else {
			words = append(words, r.Setting.Text(v.Name))
		}
	}
	return strings.Join(words, ", ")
}

func (r *Row) key() string { return r.place() + "; " + r.System + "; " + r.Metric }

// far reports whether the row is far from the printed number.
func (r *Row) far() bool {
	return r.Paper != nil && *r.Paper != 0 && math.Abs(r.Ours/(*r.Paper)-1) > Far
}

// gap is what is known of the row's.
func (r *Result) gap(row *Row) *Gap {
	for i := range r.Gaps {
		g := &r.Gaps[i]
		if g.System == row.System && g.Metric == row.Metric && g.Setting == row.place() {
			return g
		}
	}
	return nil
}

// Unexplained are the rows that are far from the printed numbers, and of whose gaps nothing
// was recorded.
func (r *Result) Unexplained() (list []Row) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.far() && r.gap(row) == nil {
			list = append(list, *row)
		}
	}
	return list
}

// Sentences are the notes; then the assumptions that held, and what is known of the numbers
// that are far from the printed ones.
func (r *Result) Sentences() []string {
	list := slices.Clone(r.Notes)
	if len(r.Held) > 0 {
		list = append(list, assumed+strings.Join(r.Held, ", ")+".")
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if r.beside || !row.far() {
			continue
		}
		if g := r.gap(row); g != nil {
			list = append(list, notPrinted+g.Describe())
		} else {
			list = append(list, notPrinted+named(row.System, row.Metric, row.place())+": "+unknown+".")
		}
	}
	return list
}

const (
	notPrinted = "Not as printed: "
	assumed    = "Assumed: "
	unknown    = "not looked into yet"
)

// Recall is what a figure found when it was made before: its rows, sentences and assumptions,
// with what is known of its gaps by now.
func (f *Figure) Recall(rows []Row, sentences, held []string) (Result, error) {
	r := Result{Rows: rows, Held: held}
	for _, s := range sentences {
		if !strings.HasPrefix(s, notPrinted) && !strings.HasPrefix(s, assumed) {
			r.Notes = append(r.Notes, s)
		}
	}
	known, err := Known()
	for _, x := range known {
		if x.ID == f.ID {
			r.Gaps = x.Gaps
		}
	}
	return r, err
}
