package experiments

import (
	"fmt"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Made is a figure that was made.
type Made struct {
	ID   string
	Took time.Duration
	Rows []Row
}

// Times lists the figures, with how long each took.
func Times(all []Made) string {
	var words []string
	for _, m := range all {
		words = append(words, fmt.Sprintf("%s (%.1f s)", m.ID, m.Took.Seconds()))
	}
	return strings.Join(words, ", ")
}

// Ledger has a line for each figure: how long it took, how many of its numbers the paper
// prints, how many of those are near, and the least and largest ratio of ours to the
// paper's.
func Ledger(all []Made) Grid {
	g := Grid{Header: []string{"figure", "seconds", "printed", fmt.Sprintf("within %g %%", 100*Far), "least ratio", "largest"}}
	for _, m := range all {
		printed, near, least, most := 0, 0, 0.0, 0.0
		for i := range m.Rows {
			row := &m.Rows[i]
			if row.Paper == nil {
				continue
			}
			if !row.far() {
				near++
			}
			if printed++; printed == 1 {
				least, most = *row.Ratio, *row.Ratio
			}
			least, most = min(least, *row.Ratio), max(most, *row.Ratio)
		}
		line := []string{m.ID, fmt.Sprintf("%.1f", m.Took.Seconds()), fmt.Sprint(printed), "-", "-", "-"}
		if printed > 0 {
			g.Numbers += printed
			line[3], line[4], line[5] = fmt.Sprint(near), quantity.Number(least), quantity.Number(most)
		}
		g.Rows = append(g.Rows, line)
	}
	return g
}
