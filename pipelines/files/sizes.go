package files

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
)

// ReadSizes reads how often queries have which size: CSV with a header that
// names the columns size and weight; other columns are passed over. Weights are
// relative, zero or above. Findings carry the line and column of the file.
func ReadSizes(filename string, src []byte) (pipelines.Mix, hcl.Diagnostics) {
	mix, _, diags := ReadSizesAt(filename, src)
	return mix, diags
}

// readSizes also tells the line of each size.
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
