// Package files reads what a declaration names beside models: profiles of modules
// and functions, sizes of queries, traces of arrivals, samples of inputs. What is
// wrong is told with the line and column of the file.
package files

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
)

// ReadProfile reads a profile in CSV: a header that names at least the columns
// hardware, batch and duration_ms; concurrency is 1 where its column is
// missing, memory_mib, spread_ms and others_cores (see Point) are 0 where they
// are missing or empty, and other columns are passed over. Findings carry the
// line and column of the file.
func ReadProfile(filename string, src []byte) ([]pipelines.Point, hcl.Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")) // a mark that some editors put first
	r := csv.NewReader(bytes.NewReader(src))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = -1
	p := &profileReader{csv: r, filename: filename, src: src, seen: map[pipelines.Point]int{}}
	p.read()
	return p.points, p.diags
}

type profileReader struct {
	csv      *csv.Reader
	filename string
	src      []byte
	columns  map[string]int
	width    int // fields of the record read last
	points   []pipelines.Point
	seen     map[pipelines.Point]int // configuration -> line
	diags    hcl.Diagnostics

	full           bool // what follows is too much
	found, foundAt int  // the line that lineRange found last, and the byte where it begins
}

func (p *profileReader) read() {
	header, err := p.csv.Read()
	if err != nil {
		p.broken(err)
		return
	}
	p.columns, p.width = map[string]int{}, len(header)
	for i, name := range header {
		p.columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, name := range []string{"hardware", "batch", "duration_ms"} {
		if _, ok := p.columns[name]; !ok {
			p.report(0, "Missing column", fmt.Sprintf("The header of a profile names hardware, batch, concurrency and duration_ms; %s is missing.", name))
		}
	}
	if p.diags.HasErrors() {
		return // without its columns no row can be read
	}
	if !p.rows(p.row, p.broken) {
		return
	}
	if len(p.points) == 0 && !p.diags.HasErrors() {
		p.report(0, "Empty profile", "The file holds no measured points.")
	}
	p.shape()
}

// maxRowFindings is when a file of rows is given up.
const maxRowFindings = 100

// rows reads what follows the header; false where the rest was not worth reading.
func (p *profileReader) rows(row func(record []string), broken func(error)) bool {
	for !p.full && len(p.diags) < maxRowFindings {
		record, err := p.csv.Read()
		if err == io.EOF {
			return true
		}
		if err != nil {
			broken(err)
			return false
		}
		row(record)
	}
	return false
}

// row reads one line; it goes on after a finding, so that all are reported.
func (p *profileReader) row(record []string) {
	before := len(p.diags)
	p.width = len(record)
	at := pipelines.Point{Concurrency: 1}
	if at.Hardware = strings.TrimSpace(p.cell(record, "hardware")); at.Hardware == "" {
		p.report(p.columns["hardware"], "Missing hardware", "Each line names the hardware that it was measured on.")
	}
	at.Batch = p.whole(record, "batch", pipelines.MaxBatch)
	if _, ok := p.columns["concurrency"]; ok {
		at.Concurrency = p.whole(record, "concurrency", pipelines.MaxConcurrency)
	}
	ms := p.number(record, "duration_ms")
	switch {
	case len(p.diags) > before:
	case ms*float64(time.Millisecond) < 1:
		p.report(p.columns["duration_ms"], "Invalid duration", "The duration of a batch is at least a nanosecond.")
	case ms > float64(pipelines.MaxDuration/time.Millisecond):
		p.report(p.columns["duration_ms"], "Invalid duration", fmt.Sprintf("A batch of %v ms takes more than a day; durations are in milliseconds.", ms))
	}
	at.MemoryMiB = p.optional(record, "memory_mib", math.MaxFloat64, "Invalid memory", "Memory cannot be negative.")
	spread := p.optional(record, "spread_ms", float64(pipelines.MaxDuration/time.Millisecond), "Invalid spread", "The spread is how much longer than duration_ms one run in 20 takes, in milliseconds: from 0 to a day.")
	at.Spread = time.Duration(math.Round(spread * float64(time.Millisecond)))
	at.Others = p.optional(record, "others_cores", math.MaxFloat64, "Invalid cores", "Others cannot have used less than no processor core.")
	if len(p.diags) > before {
		return
	}
	key := pipelines.Point{Hardware: at.Hardware, Batch: at.Batch, Concurrency: at.Concurrency}
	line, _ := p.csv.FieldPos(0)
	if first, twice := p.seen[key]; twice {
		p.report(0, "Measured twice", fmt.Sprintf("Batch %d at concurrency %d on %s stands already in line %d; keep one of the two.", at.Batch, at.Concurrency, at.Hardware, first))
		return
	}
	if len(p.points) == pipelines.MaxPoints {
		p.report(0, "Profile too long", fmt.Sprintf("A profile has at most %d points; keep the batch sizes that matter, such as powers of two.", pipelines.MaxPoints))
		p.full = true
		return
	}
	p.seen[key] = line
	at.Duration = time.Duration(math.Round(ms * float64(time.Millisecond)))
	p.points = append(p.points, at)
}

func (p *profileReader) cell(record []string, column string) string {
	if i, ok := p.columns[column]; ok && i < len(record) {
		return record[i]
	}
	return ""
}

func (p *profileReader) number(record []string, column string) float64 {
	text := strings.TrimSpace(p.cell(record, column))
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !pipelines.IsFinite(x) {
		p.report(p.columns[column], "Not a number", fmt.Sprintf("%q in column %s is not a number.", text, column))
		return 0
	}
	return x
}

// optional is a number from 0 to most; 0 where the cell is missing or empty.
func (p *profileReader) optional(record []string, column string, most float64, summary, detail string) float64 {
	if strings.TrimSpace(p.cell(record, column)) == "" {
		return 0
	}
	x := p.number(record, column)
	if x < 0 || x > most {
		p.report(p.columns[column], summary, detail)
		return 0
	}
	return x
}

func (p *profileReader) whole(record []string, column string, most int) int {
	text := strings.TrimSpace(p.cell(record, column))
	x, err := strconv.Atoi(text)
	if err != nil || x < 1 || x > most {
		p.report(p.columns[column], "Not a whole number", fmt.Sprintf("%q in column %s must be a whole number from 1 to %d.", text, column, most))
		return 0
	}
	return x
}

// shape looks at the points together. Measured profiles are noisy, so
// durations that fall with the batch are only worth a warning.
func (p *profileReader) shape() {
	sorted := slices.Clone(p.points)
	slices.SortFunc(sorted, pipelines.ComparePoints)
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if len(p.diags) >= maxRowFindings {
			return
		}
		if a.Hardware != b.Hardware || a.Concurrency != b.Concurrency || b.Duration >= a.Duration {
			continue
		}
		line := p.seen[pipelines.Point{Hardware: b.Hardware, Batch: b.Batch, Concurrency: b.Concurrency}]
		p.diags = append(p.diags, Warning("Duration falls with the batch", fmt.Sprintf(
			"On %s a batch of %d takes %v but one of %d takes %v. The smaller batch is run padded to the larger where that is quicker.",
			a.Hardware, a.Batch, a.Duration, b.Batch, b.Duration), p.lineRange(line)))
	}
}

func (p *profileReader) broken(err error) {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		p.diags = append(p.diags, Problem("Empty profile", "The file is empty; its first line names the columns hardware,batch,concurrency,duration_ms.", p.lineRange(1)))
	case errors.As(err, &parse):
		p.diags = append(p.diags, Problem("Broken profile", parse.Err.Error()+".", p.lineRange(parse.Line)))
	default:
		p.diags = append(p.diags, Problem("Broken profile", err.Error(), p.lineRange(1)))
	}
}

// report places a finding at a field of the record read last.
func (p *profileReader) report(field int, summary, detail string) {
	line, column := p.csv.FieldPos(min(field, p.width-1))
	subject := p.lineRange(line)
	subject.Start.Byte += column - 1
	subject.Start.Column = column
	p.diags = append(p.diags, Problem(summary, detail, subject))
}

// lineRange spans a whole line, for snippets.
func (p *profileReader) lineRange(line int) *hcl.Range {
	start := 0
	from := 1
	if p.found > 0 && p.found <= line {
		from, start = p.found, p.foundAt
	}
	for n := from; n < line; n++ {
		next := bytes.IndexByte(p.src[start:], '\n')
		if next < 0 {
			break
		}
		start += next + 1
	}
	p.found, p.foundAt = line, start
	end := start + len(p.src[start:])
	if next := bytes.IndexByte(p.src[start:], '\n'); next >= 0 {
		end = start + next
	}
	return &hcl.Range{
		Filename: p.filename,
		Start:    hcl.Pos{Line: line, Column: 1, Byte: start},
		End:      hcl.Pos{Line: line, Column: 1 + end - start, Byte: end},
	}
}

// ReadSizes reads how often queries have which size: CSV with a header that
// names the columns size and weight; other columns are passed over. Weights are
// relative, zero or above. Findings carry the line and column of the file.
func ReadSizes(filename string, src []byte) (pipelines.Mix, hcl.Diagnostics) {
	mix, _, diags := ReadSizesAt(filename, src)
	return mix, diags
}

// ReadSizesAt also returns the line of each size.
func ReadSizesAt(filename string, src []byte) (pipelines.Mix, map[int]hcl.Range, hcl.Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(src))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = -1
	s := &sizesReader{profileReader: profileReader{csv: r, filename: filename, src: src}, lines: map[int]hcl.Range{}}
	s.read()
	slices.SortFunc(s.mix, func(a, b pipelines.Size) int { return cmp.Compare(a.Size, b.Size) })
	return s.mix, s.lines, s.diags
}

type sizesReader struct {
	profileReader
	mix   pipelines.Mix
	lines map[int]hcl.Range
}

func (s *sizesReader) read() {
	header, err := s.csv.Read()
	if err == io.EOF {
		s.diags = append(s.diags, Problem("Empty file of sizes", "The file is empty; its first line names the columns size,weight.", s.lineRange(1)))
		return
	}
	if err != nil {
		s.broken(err)
		return
	}
	s.columns, s.width = map[string]int{}, len(header)
	for i, name := range header {
		s.columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	_, size := s.columns["size"]
	_, weight := s.columns["weight"]
	if !size || !weight {
		s.report(0, "Missing column", "The header of a file of sizes names the columns size,weight; one of them is missing.")
		return // without its columns no row can be read
	}
	if !s.rows(s.row, s.broken) {
		return
	}
	if !s.diags.HasErrors() && s.mix.Total() == 0 {
		s.report(0, "No queries", "No size has a weight above zero; give each size the number or the share of queries that have it.")
	}
}

// row reads one line; it goes on after a finding, so that all are reported.
func (s *sizesReader) row(record []string) {
	before := len(s.diags)
	s.width = len(record)
	size := s.whole(record, "size", pipelines.MaxBatch)
	weight := s.number(record, "weight")
	line, _ := s.csv.FieldPos(0)
	first, twice := s.lines[size]
	switch {
	case len(s.diags) > before:
	case weight < 0:
		s.report(s.columns["weight"], "Negative weight", fmt.Sprintf("Size %d has the weight %v; a weight is zero or above.", size, weight))
	case weight > pipelines.MaxWeight:
		s.report(s.columns["weight"], "Weight out of range", fmt.Sprintf("A weight is at most %.0g; only their proportions count.", pipelines.MaxWeight))
	case twice:
		s.report(0, "Size given twice", fmt.Sprintf("Size %d stands already in line %d; add up the two weights.", size, first.Start.Line))
	default:
		s.mix = append(s.mix, pipelines.Size{Size: size, Weight: weight})
	}
	if !twice {
		s.lines[size] = *s.lineRange(line)
	}
}

// Problem is an error at a place; subject may be nil.
func Problem(summary, detail string, subject *hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: subject}
}

// Warning is a warning at a place; subject may be nil.
func Warning(summary, detail string, subject *hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: subject}
}
