package planning

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// grid is a table of texts that can be printed in two ways.
type grid struct {
	header []string
	rows   [][]string
	prose  int // columns after the first that hold words
}

// text aligns columns for a terminal: words to the left, numbers to the right.
func (g grid) text() string {
	lines := append([][]string{g.header}, g.rows...)
	widths := make([]int, g.prose+1)
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

func (g grid) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(g.header)
	var rule []string
	for i := range g.header {
		if i <= g.prose {
			rule = append(rule, "---")
		} else {
			rule = append(rule, "---:")
		}
	}
	line(rule)
	for _, r := range g.rows {
		line(r)
	}
	return b.String()
}

// share is n of all as a percentage, without digits that all cannot carry.
func share(n, all int) string {
	switch {
	case all == 0:
		return "-"
	case n == 0:
		return "0"
	case n == all:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

func count(n int) string { return fmt.Sprint(n) }

// ratio is a factor with three digits behind the point; none where nothing was
// compared.
func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

// millis is a time in milliseconds with three figures.
func millis(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
