package ocr

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/harpagon/harpagon/examples/ocr/page"
)

// Report is how well pages of one kind are read.
type Report struct {
	Kind         page.Kind
	Pages        int
	Lines, Found int
	Letters      int // of the truth, with spaces and line breaks
	Wrong        int // insertions, deletions and exchanges that make the truth of what was read
}

// Accuracy is 1 less the wrong letters per letter.
func (r Report) Accuracy() float64 { return 1 - float64(r.Wrong)/float64(max(r.Letters, 1)) }

// Describe is the report in one line.
func (r Report) Describe() string {
	return fmt.Sprintf("%-7s %d pages, %d lines, %d found, %d letters, %d wrong: accuracy %.4f", r.Kind, r.Pages, r.Lines, r.Found, r.Letters, r.Wrong, r.Accuracy())
}

// Evaluate reads n pages of a kind, from the given seed on.
func Evaluate(r *Reader, kind page.Kind, seed uint64, n int) (Report, error) {
	report := Report{Kind: kind}
	for i := range n {
		p := page.Draw(seed+uint64(i), kind)
		lines, err := r.Read(p.Image)
		if err != nil {
			return report, err
		}
		report.Pages++
		report.Lines += len(p.Lines)
		report.Found += len(lines)
		report.Letters += len([]rune(p.Text()))
		report.Wrong += levenshtein.Distance(p.Text(), Text(lines), nil)
	}
	return report, nil
}

// Text is the lines as one text. Pieces side by side are one line.
func Text(lines []Line) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			if beside(lines[i-1], l) {
				b.WriteByte(' ')
			} else {
				b.WriteByte('\n')
			}
		}
		b.WriteString(l.Text)
	}
	return b.String()
}

// beside is true when the second begins to the right of the first's end, and
// less than half a line lower or higher.
func beside(a, b Line) bool {
	ux, uy := float64(a.Quad[2]-a.Quad[0]), float64(a.Quad[3]-a.Quad[1])
	vx, vy := float64(a.Quad[6]-a.Quad[0]), float64(a.Quad[7]-a.Quad[1])
	dx, dy := float64(b.Quad[0]-a.Quad[0]), float64(b.Quad[1]-a.Quad[1])
	along, down := (dx*ux+dy*uy)/(ux*ux+uy*uy), (dx*vx+dy*vy)/(vx*vx+vy*vy)
	return along > 0.8 && down > -0.5 && down < 0.5
}
