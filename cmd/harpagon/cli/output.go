package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/internal/osutil"
)

// narrowest is the least width that text is laid out for.
const narrowest = 40

// fitter is an output whose lines are kept within a width: prose is wrapped
// between words, and a table that is wider is folded, each part beginning with the columns
// that distinguish its rows. Text goes out when a command ends, or at once, where at is
// true: then what is written in one go is laid out together.
type fitter struct {
	to     io.Writer
	width  int
	whole  bool // nothing is changed: what is written is for programs
	atOnce bool
	held   bytes.Buffer
}

func (f *fitter) Write(p []byte) (int, error) {
	if f.whole {
		return f.to.Write(p)
	}
	f.held.Write(p)
	if f.atOnce && bytes.HasSuffix(p, []byte("\n")) {
		return len(p), f.flush()
	}
	return len(p), nil
}

// flush writes what is held back.
func (f *fitter) flush() error {
	if f.held.Len() == 0 {
		return nil
	}
	text := fitted(f.held.String(), f.width)
	f.held.Reset()
	_, err := io.WriteString(f.to, text)
	return err
}

// fitted lays a text out within a width.
func fitted(text string, width int) string {
	width = max(width, narrowest)
	lines := strings.Split(text, "\n")
	var b strings.Builder
	for i := 0; i < len(lines); {
		rows := tableAt(lines[i:])
		switch {
		case rows > 1:
			writeTable(&b, lines[i:i+rows], width)
			i += rows
			if i == len(lines) { // the last line has no end
				return strings.TrimSuffix(b.String(), "\n")
			}
		default:
			b.WriteString(folded(lines[i], width))
			if i++; i < len(lines) {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// folded wraps one line of prose; what follows is indented by two more.
func folded(line string, width int) string {
	if len([]rune(line)) <= width {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	inner := max(width-len(indent)-2, narrowest/2)
	return indent + wrapped(line, inner, indent+"  ")
}

// leastGaps is how many gaps of two spaces or more make a line one of a table.
const leastGaps = 2

// tableAt is the number of lines from the first on that are rows of a table.
func tableAt(lines []string) int {
	for n, line := range lines {
		if strings.Count(gapless(line), "\x00") < leastGaps {
			return n
		}
	}
	return len(lines)
}

// gapless marks the gaps within a line.
func gapless(line string) string {
	var b strings.Builder
	spaces := 0
	for _, r := range strings.TrimSpace(line) {
		if r == ' ' {
			if spaces++; spaces == 2 {
				b.WriteByte(0)
			}
			continue
		}
		spaces = 0
		b.WriteRune(r)
	}
	return b.String()
}

// fits reports whether no line of the text is longer than the width.
func fits(text string, width int) bool {
	for line := range strings.Lines(text) {
		if len([]rune(strings.TrimRight(line, " \n"))) > width {
			return false
		}
	}
	return true
}

// writeTable folds a table that is too wide.
func writeTable(b *strings.Builder, lines []string, width int) {
	rows := make([][]rune, len(lines))
	widest := 0
	for i, line := range lines {
		rows[i] = []rune(strings.TrimRight(line, " "))
		widest = max(widest, len(rows[i]))
	}
	cuts := columns(rows, widest)
	if widest <= width || len(cuts) < 3 {
		for _, line := range lines {
			b.WriteString(folded(strings.TrimRight(line, " "), width))
			b.WriteByte('\n')
		}
		return
	}
	columns := keyColumns(rows, cuts, width)
	key := cuts[columns]
	for from := columns; from < len(cuts)-1; {
		to := from + 1
		for to < len(cuts)-1 && key+cuts[to+1]-cuts[from] <= width {
			to++
		}
		for _, row := range rows {
			first, last := part(row, 0, key), part(row, cuts[from], cuts[to])
			line := strings.TrimRight(first+last, " ")
			switch below := first + wrapped(last, width-key, strings.Repeat(" ", key)); {
			case fits(line, width):
			case fits(below, width): // one cell that is too long goes on below itself
				line = below
			default:
				line = folded(line, width)
			}
			b.WriteString(line)
			b.WriteByte('\n')
		}
		if from = to; from < len(cuts)-1 {
			b.WriteByte('\n')
		}
	}
}

// keyColumns is how many of the first columns distinguish all rows; one where that takes
// more than half of the width.
func keyColumns(rows [][]rune, cuts []int, width int) int {
	for n := 1; n < len(cuts)-1 && cuts[n] <= width/2; n++ {
		seen := make(map[string]bool, len(rows))
		for _, row := range rows {
			seen[part(row, 0, cuts[n])] = true
		}
		if len(seen) == len(rows) {
			return n
		}
	}
	return 1
}

// columns gives where each column of a table begins, and its end: a column
// follows a gap of two spaces that all rows share.
func columns(rows [][]rune, widest int) []int {
	blank := func(at int) bool {
		for _, row := range rows {
			if at < len(row) && row[at] != ' ' {
				return false
			}
		}
		return true
	}
	cuts := []int{0}
	first := 0
	for first < widest && blank(first) {
		first++
	}
	for at := first; at < widest; at++ {
		gap := at
		for gap < widest && blank(gap) {
			gap++
		}
		if gap-at >= 2 && gap < widest {
			cuts = append(cuts, gap)
		}
		at = max(at, gap-1)
	}
	return append(cuts, widest)
}

// part is a stretch of a row, filled up with spaces.
func part(row []rune, from, to int) string {
	if from >= len(row) {
		return strings.Repeat(" ", to-from)
	}
	piece := row[from:min(to, len(row))]
	return string(piece) + strings.Repeat(" ", to-from-len(piece))
}

// lineWidth is the default width of lines of text.
const lineWidth = 100

// wrapped breaks a text between words so that no line is longer than width;
// lines after the first begin with indent. A word that is longer stands alone.
func wrapped(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// checkPicture returns an error early when a picture cannot be written to the file.
func checkPicture(path string) error {
	if path == "" {
		return nil
	}
	if err := chart.Check(path); err != nil {
		return fmt.Errorf("--plot %w", err)
	}
	return nil
}

// drawing is a picture of package chart; the name of the file states in which format
// it is written.
type drawing interface {
	Write(w io.Writer, name string) error
}

// writePicture draws to a file; one that was there stays where that fails.
func writePicture(d *Deps, path string, p drawing) error {
	var drawn bytes.Buffer
	err := p.Write(&drawn, path)
	if err == nil {
		err = osutil.ReplaceFile(path, drawn.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("the picture was not drawn: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	return nil
}
