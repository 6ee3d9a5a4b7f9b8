package experiments

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Grid is a table of texts that can be printed in two ways.
type Grid struct {
	Caption string
	Header  []string
	Rows    [][]string
	Prose   int // columns after the first that hold words
	Numbers int // measured ones in it
}

// Text aligns columns for a terminal: words to the left, numbers to the right.
func (g Grid) Text() string {
	lines := append([][]string{g.Header}, g.Rows...)
	widths := make([]int, g.Prose+1)
	for _, line := range lines {
		for i := range widths {
			widths[i] = max(widths[i], len(line[i]))
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range lines {
		for i, cell := range line {
			if i < len(widths) {
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
		if i <= g.Prose {
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
