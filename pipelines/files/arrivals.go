package files

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
)

// ReadTrace reads how many requests come in each second: one count a line, or
// "second,count" with rising seconds, where those left out have none. Lines
// that begin with # and empty lines are passed over, as is a first line of
// names. Findings carry line and column.
func ReadTrace(filename string, src []byte) (pipelines.Trace, hcl.Diagnostics) {
	r := newColumns(filename, src)
	var t pipelines.Trace
	width := 0
	for r.next() {
		if width == 0 {
			width = len(r.fields)
			if width > 2 {
				r.report(2, "Too many columns", "A line of a trace is a count, or a second and its count: SECOND,COUNT.")
				break
			}
		}
		if len(r.fields) != width {
			r.report(0, "Uneven lines", fmt.Sprintf("The lines before have %d columns and this one has %d.", width, len(r.fields)))
			break
		}
		second := int64(len(t.Seconds))
		if width == 2 {
			x, ok := r.number(0)
			if !ok {
				continue
			}
			if x != math.Trunc(x) || x < 0 || x > pipelines.MaxSpan {
				r.report(0, "Invalid second", fmt.Sprintf("A second is a whole number from 0 to %d.", pipelines.MaxSpan))
				continue
			}
			second = int64(x)
			if n := len(t.Seconds); n > 0 && second <= t.Seconds[n-1] {
				r.report(0, "Seconds out of order", fmt.Sprintf("Second %d comes after second %d; sort the lines by their seconds, each once.", second, t.Seconds[n-1]))
				continue
			}
		}
		count, ok := r.number(width - 1)
		switch {
		case !ok:
		case count < 0:
			r.report(width-1, "Negative count", "A second has no requests or some; it cannot have fewer than none.")
		case count > pipelines.MaxCount:
			r.report(width-1, "Count out of range", fmt.Sprintf("A second has at most %.0g requests.", float64(pipelines.MaxCount)))
		default:
			t.Seconds, t.Counts = append(t.Seconds, second), append(t.Counts, count)
		}
	}
	if t.Total() == 0 && !r.diags.HasErrors() {
		r.report(0, "Empty trace", "The trace holds no requests.")
	}
	return t, r.diags
}

// ReadStamps reads when requests came, one a line in the first column, as
// seconds from a start or as dates with a time of day; other columns are passed
// over. Times must not fall. The stamps returned count from the first date, and
// from zero where they are seconds. Comments and a first line of names are
// passed over. Findings carry line and column.
func ReadStamps(filename string, src []byte) ([]time.Duration, hcl.Diagnostics) {
	r := newColumns(filename, src)
	var all []time.Duration
	var origin time.Time
	dated := false
	for r.next() {
		at, when, ok := r.stamp()
		if !ok {
			continue
		}
		if len(all) == 0 {
			dated = when != nil
			if dated {
				origin = *when
			}
		} else if dated != (when != nil) {
			r.report(0, "Mixed times", "Some lines have dates and others have seconds; write all of them in one way.")
			continue
		}
		if dated {
			at = when.Sub(origin)
		}
		switch n := len(all); {
		case at < 0 && n == 0:
			r.report(0, "Negative time", "Times count from the start, which is 0.")
		case n > 0 && at < all[n-1]:
			r.report(0, "Times out of order", fmt.Sprintf("This request comes %v before the one in the line above; sort the lines by time.", all[n-1]-at))
		case at > pipelines.MaxSpan*time.Second/4:
			r.report(0, "Time out of range", "The time is more than eight years after the start.")
		default:
			all = append(all, at)
		}
	}
	if len(all) == 0 && !r.diags.HasErrors() {
		r.report(0, "Empty trace", "The file holds no times.")
	}
	return all, r.diags
}

// stamp reads the first column as seconds or as a date.
func (r *columns) stamp() (at time.Duration, when *time.Time, ok bool) {
	text := r.fields[0]
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if when, err := time.Parse(layout, text); err == nil {
			return 0, &when, true
		}
	}
	x, ok := r.number(0)
	if ok && math.Abs(x) > pipelines.MaxSpan {
		r.report(0, "Time out of range", "Times are seconds from a start, at most eight years; dates are written 2006-01-02 15:04:05.")
		return 0, nil, false
	}
	return time.Duration(math.Round(x * float64(time.Second))), nil, ok
}

// columns reads lines of fields that commas separate.
type columns struct {
	filename string
	rest     []byte
	line     int
	begin    int // byte at which the line begins
	end      int
	offset   []int // of the fields in the line, in bytes
	fields   []string
	started  bool
	diags    hcl.Diagnostics
}

// maxFindings is when a file is given up.
const maxFindings = 10

func newColumns(filename string, src []byte) *columns {
	return &columns{filename: filename, rest: src}
}

// next goes to the next line that says something.
func (r *columns) next() bool {
	for len(r.rest) > 0 && len(r.diags) < maxFindings {
		line := r.rest
		if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
			line = r.rest[:i+1]
		}
		r.rest = r.rest[len(line):]
		r.begin, r.line = r.end, r.line+1
		r.end += len(line)
		text := strings.TrimRight(string(line), "\r\n")
		if r.line == 1 {
			text = strings.TrimPrefix(text, "\xef\xbb\xbf")
		}
		if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		r.split(text)
		if !r.started {
			r.started = true
			if heading(r.fields[0]) {
				continue
			}
		}
		return true
	}
	return false
}

// heading reports whether a field is the name of a column: it begins with a letter
// and is not one of the words that read as numbers.
func heading(field string) bool {
	if field == "" {
		return false
	}
	c := field[0] | 0x20
	_, err := strconv.ParseFloat(field, 64)
	return c >= 'a' && c <= 'z' && err != nil
}

func (r *columns) split(text string) {
	r.fields, r.offset = r.fields[:0], r.offset[:0]
	at := 0
	for _, field := range strings.Split(text, ",") {
		r.fields = append(r.fields, strings.TrimSpace(field))
		r.offset = append(r.offset, at+len(field)-len(strings.TrimLeft(field, " \t")))
		at += len(field) + 1
	}
}

func (r *columns) number(field int) (float64, bool) {
	x, err := strconv.ParseFloat(r.fields[field], 64)
	if err != nil || !pipelines.IsFinite(x) {
		r.report(field, "Not a number", fmt.Sprintf("%q is not a number.", r.fields[field]))
		return 0, false
	}
	return x, true
}

func (r *columns) report(field int, summary, detail string) {
	at := 0
	if field < len(r.offset) {
		at = r.offset[field]
	}
	line := max(1, r.line)
	r.diags = append(r.diags, Problem(summary, detail, &hcl.Range{
		Filename: r.filename,
		Start:    hcl.Pos{Line: line, Column: at + 1, Byte: min(r.begin+at, r.end)},
		End:      hcl.Pos{Line: line, Column: max(at+1, r.end-r.begin), Byte: r.end},
	}))
}

// mostMillis is the longest time in a file of percentiles, an hour.
const mostMillis = 3.6e6

// ReadPercentiles reads how long something took: "percent,milliseconds" a line, percents
// rising from 0 to 100, times not falling. Lines that begin with # and empty lines are
// passed over, as is a first line of names. Findings carry line and column.
func ReadPercentiles(filename string, src []byte) (percents []float64, times []time.Duration, diags hcl.Diagnostics) {
	r := newColumns(filename, src)
	for r.next() {
		if len(r.fields) != 2 {
			r.report(0, "Not two columns", "A line is a percentile and its time in milliseconds: PERCENT,MS.")
			break
		}
		percent, ok := r.number(0)
		ms, fine := r.number(1)
		if !ok || !fine {
			continue
		}
		at, n := time.Duration(math.Round(ms*float64(time.Millisecond))), len(percents)
		switch {
		case percent < 0 || percent > 100:
			r.report(0, "Invalid percentile", "A percentile is from 0 to 100.")
		case !(ms >= 0 && ms <= mostMillis):
			r.report(1, "Time out of range", fmt.Sprintf("A time is from 0 to %.0f milliseconds.", mostMillis))
		case n > 0 && percent <= percents[n-1]:
			r.report(0, "Percentiles out of order", fmt.Sprintf("Percentile %v comes after %v; sort the lines, each percentile once.", percent, percents[n-1]))
		case n > 0 && at < times[n-1]:
			r.report(1, "Time falls", fmt.Sprintf("A higher percentile cannot be shorter than the one above, %v.", times[n-1]))
		default:
			percents, times = append(percents, percent), append(times, at)
		}
	}
	if len(percents) == 0 && !r.diags.HasErrors() {
		r.report(0, "No percentiles", "The file holds no percentile.")
	}
	return percents, times, r.diags
}
