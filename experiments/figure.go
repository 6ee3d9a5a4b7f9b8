package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Figure is a figure or a table, of a paper or of our docs.
type Figure struct {
	ID      string // such as "symphony/table4"
	Title   string
	Seconds int // to expect on two cores
	Layout  Layout
	Picture *Picture // nil where there is nothing to draw
	Run     func(ctx context.Context, e *Env) (Result, error)
}

// Env is what figures are run with.
type Env struct {
	Quick    bool                             // a small part, for a look and for tests
	Assumed  []string                         // names of assumptions that hold; see Assume
	Trace    string                           // file of counts to take in place of drawn ones, where a figure has some; empty for none
	Clock    func() time.Duration             // processor time of the calling thread; nil leaves times zero
	Progress func(what string, done, all int) // called from one goroutine at a time; may be nil
}

// Now reads the clock.
func (e *Env) Now() time.Duration {
	if e.Clock == nil {
		return 0
	}
	return e.Clock()
}

// Each runs n independent pieces of work on all cores, each core on a thread of
// its own, so that Clock measures the piece alone. It ends early, with the context's error,
// when the context does, and with the first error of a piece; pieces that have begun are
// finished first.
func (e *Env) Each(ctx context.Context, what string, n int, do func(i int) error) error {
	var (
		wait  sync.WaitGroup
		next  atomic.Int64
		mu    sync.Mutex
		done  int
		first error
	)
	finished := func(err error) (goOn bool) {
		mu.Lock()
		defer mu.Unlock()
		if done++; e.Progress != nil && err == nil {
			e.Progress(what, done, n)
		}
		if first == nil {
			first = err
		}
		return first == nil
	}
	for range min(runtime.GOMAXPROCS(0), n) {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if !finished(do(i)) {
					return
				}
			}
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return first
}

// Part is the whole list, or every n-th of it in quick runs.
func Part[T any](e *Env, list []T, n int) []T {
	if !e.Quick {
		return list
	}
	var some []T
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// Result is what a figure found.
type Result struct {
	Rows  []Row    `json:"rows"`
	Notes []string `json:"notes,omitempty"` // sentences that belong to the table

	Gaps []Gap    `json:"-"`                 // what is known of numbers that are far from the printed ones
	Held []string `json:"assumed,omitempty"` // names of the assumptions under which it was made

	beside bool // shown as one table of ours, the paper's and their ratio
}

// Row is one measured number.
type Row struct {
	Setting Setting  `json:"setting"`
	System  string   `json:"system"`
	Metric  string   `json:"metric"`
	Unit    string   `json:"unit"` // empty for a ratio or a number of things
	Ours    float64  `json:"ours"`
	Paper   *float64 `json:"paper"`           // nil where the paper prints none
	Ratio   *float64 `json:"ratio,omitempty"` // ours over the paper's; nil where the paper prints none
}

// Add appends a number. One that is not finite was not measured, and is left
// out.
func (r *Result) Add(s Setting, system, metric, unit string, ours float64) {
	if !math.IsNaN(ours) && !math.IsInf(ours, 0) {
		r.Rows = append(r.Rows, Row{Setting: s, System: system, Metric: metric, Unit: unit, Ours: ours})
	}
}

// AddPrinted appends a number beside the one of the paper; zero is none.
func (r *Result) AddPrinted(s Setting, system, metric, unit string, ours, paper float64) {
	r.Add(s, system, metric, unit, ours)
	if n := len(r.Rows); n > 0 && paper != 0 {
		ratio := ours / paper
		r.Rows[n-1].Paper, r.Rows[n-1].Ratio = &paper, &ratio
	}
}

// AddWithin appends a number of which the paper prints a range: outside it stands the end
// that is nearer, inside there is nothing to compare.
func (r *Result) AddWithin(s Setting, system, metric, unit string, ours, low, high float64) {
	switch {
	case ours < low:
		r.AddPrinted(s, system, metric, unit, ours, low)
	case ours > high:
		r.AddPrinted(s, system, metric, unit, ours, high)
	default:
		r.Add(s, system, metric, unit, ours)
	}
}

// Only is the result with the rows of these metrics alone; the whole where there are none of them.
func (r Result) Only(metrics []string) Result {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return !slices.Contains(metrics, row.Metric) })
	if len(rows) > 0 {
		r.Rows = rows
	}
	return r
}

// Printed is the result with the numbers alone that a paper prints. Its table has a line for
// each: ours, the paper's, their ratio, and what is known of it where it is far.
func (r Result) Printed() Result {
	r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Paper == nil })
	r.beside = true
	return r
}

// Note appends a sentence.
func (r *Result) Note(format string, values ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, values...))
}

// Setting is where a number was measured: names and values, in the order of the
// columns.
type Setting []Value

// Value is a text or a number of a setting.
type Value struct {
	Name string
	Of   any
}

// Set makes a setting of names and values in turn.
func Set(pairs ...any) Setting {
	s := make(Setting, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		s = append(s, Value{Name: pairs[i].(string), Of: pairs[i+1]})
	}
	return s
}

// With is the setting and more.
func (s Setting) With(pairs ...any) Setting { return append(slices.Clip(s), Set(pairs...)...) }

// Number is the value of that name as a number.
func (s Setting) Number(name string) (float64, bool) {
	for _, v := range s {
		if v.Name != name {
			continue
		}
		switch x := v.Of.(type) {
		case int:
			return float64(x), true
		case float64:
			return x, true
		}
	}
	return 0, false
}

// Text is the value of that name for people; empty where there is none.
func (s Setting) Text(name string) string {
	if x, ok := s.Number(name); ok {
		return quantity.Number(x)
	}
	for _, v := range s {
		if v.Name == name {
			return fmt.Sprint(v.Of)
		}
	}
	return ""
}

// MarshalJSON writes an object whose names stand in the setting's order.
func (s Setting) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		pair, err := json.Marshal(map[string]any{v.Name: v.Of})
		if err != nil {
			return nil, err
		}
		b.Write(pair[1 : len(pair)-1])
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Setting) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	*s = nil
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		v := Value{Name: fmt.Sprint(name)}
		if err := d.Decode(&v.Of); err != nil {
			return err
		}
		*s = append(*s, v)
	}
	return nil
}

// Picture states how rows of one metric are drawn: a panel for each value of
// Panel, a line for each system, a point for each value of X.
type Picture struct {
	Metric string
	Panel  []string // names of values; without any there is one panel
	X      string   // name of a value that is a number
	LogX   bool
	LogY   bool
	Footer string
}
