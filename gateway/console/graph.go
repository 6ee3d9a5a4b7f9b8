package console

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// Measures of the drawing, in its own units.
const (
	boxWidth, boxHeight = 168, 74
	gapX, gapY          = 46, 20
	labelLetters        = 22
)

// drawGraph draws the modules of a pipeline from left to right, each with the
// budget that the plan gives it and what requests spend there.
func drawGraph(p pipelines.Pipeline, modules []moduleView) template.HTML {
	columns := map[string]int{}
	for _, m := range p.Modules { // in order of declaration a module may come before what feeds it
		column(p, m.Name, columns, len(p.Modules))
	}
	rows, at := map[int]int{}, map[string][2]int{}
	width, height := 0, 0
	for _, m := range p.Modules {
		c := columns[m.Name]
		x, y := c*(boxWidth+gapX), rows[c]*(boxHeight+gapY)
		rows[c]++
		at[m.Name] = [2]int{x, y}
		width, height = max(width, x+boxWidth), max(height, y+boxHeight)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="graph" viewBox="-2 -2 %d %d" width="%d" role="img" aria-label="modules of %s">`, width+4, height+4, width+4, template.HTMLEscapeString(p.Name))
	for _, m := range p.Modules {
		to := at[m.Name]
		drawn := map[string]bool{}
		for _, in := range m.Inputs {
			from, ok := at[in.From.Module]
			if !ok || drawn[in.From.Module] {
				continue
			}
			drawn[in.From.Module] = true
			x0, y0, x1, y1 := from[0]+boxWidth, from[1]+boxHeight/2, to[0], to[1]+boxHeight/2
			middle := (x0 + x1) / 2
			fmt.Fprintf(&b, `<path class="edge" d="M%d %dC%d %d %d %d %d %d"/>`, x0, y0, middle, y0, middle, y1, x1, y1)
		}
	}
	for _, m := range modules {
		if xy, ok := at[m.Name]; ok {
			drawBox(&b, xy[0], xy[1], m)
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// column is one more than the furthest module before it. A cycle, which no
// declaration that is served has, ends after as many steps as there are modules.
func column(p pipelines.Pipeline, name string, known map[string]int, left int) int {
	if c, ok := known[name]; ok || left < 0 {
		return c
	}
	c := 0
	for _, m := range p.Modules {
		if m.Name != name {
			continue
		}
		for _, in := range m.Inputs {
			if in.From.Module != "" {
				c = max(c, 1+column(p, in.From.Module, known, left-1))
			}
		}
	}
	known[name] = c
	return c
}

func drawBox(b *strings.Builder, x, y int, m moduleView) {
	class := "box"
	if m.Typical > m.Budget && m.Budget > 0 {
		class += " over"
	}
	fmt.Fprintf(b, `<g transform="translate(%d %d)"><rect class="%s" width="%d" height="%d" rx="6"/>`, x, y, class, boxWidth, boxHeight)
	fmt.Fprintf(b, `<text class="name" x="10" y="20">%s</text>`, template.HTMLEscapeString(shorten(m.Name)))
	fmt.Fprintf(b, `<text x="10" y="37">%s</text>`, template.HTMLEscapeString(shorten(m.Batches)))
	budget, spent := "no budget", "nothing measured"
	if m.Budget > 0 {
		budget = "budget " + short(m.Budget)
	}
	if m.Measured {
		spent = "spent " + short(m.Typical)
	}
	fmt.Fprintf(b, `<text x="10" y="52">%s</text>`, spent)
	fmt.Fprintf(b, `<text class="quiet" x="10" y="66">%s</text></g>`, budget)
}

func shorten(s string) string {
	if letters := []rune(s); len(letters) > labelLetters {
		return string(letters[:labelLetters-1]) + "…"
	}
	return s
}
