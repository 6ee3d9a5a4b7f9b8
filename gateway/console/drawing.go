package console

import (
	"fmt"
	"html/template"
	"math"
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
	below, at := map[int]int{}, map[string]point{} // below is what is free of each column
	width, height := 0, 0
	for _, m := range p.Modules {
		c := columns[m.Name]
		x, y := columnAt(c), below[c]
		below[c] += boxHeight + gapY
		at[m.Name] = point{x, y}
		width, height = max(width, x+boxWidth), max(height, y+boxHeight)
	}
	lanes := layLanes(p, columns, below)
	for _, y := range lanes {
		height = max(height, y+gapY/2)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="graph" viewBox="-2 -2 %d %d" width="%d" role="img" aria-label="modules of %s">`, width+4, height+4, width+4, template.HTMLEscapeString(p.Name))
	for _, m := range p.Modules {
		to := at[m.Name]
		drawn := map[string]bool{}
		for _, r := range m.Reads() {
			from, ok := at[r.Module]
			if !ok || drawn[r.Module] {
				continue
			}
			drawn[r.Module] = true
			here := point{from.x + boxWidth, from.y + boxHeight/2}
			fmt.Fprintf(&b, `<path class="edge" d="M%d %d`, here.x, here.y)
			for c := columns[r.Module] + 1; c < columns[m.Name]; c++ {
				here = curve(&b, here, point{columnAt(c), lanes[lane{r.Module, c}]})
				here.x += boxWidth
				fmt.Fprintf(&b, "H%d", here.x)
			}
			curve(&b, here, point{to.x, to.y + boxHeight/2})
			b.WriteString(`"/>`)
		}
	}
	for _, m := range modules {
		if xy, ok := at[m.Name]; ok {
			drawBox(&b, xy.x, xy.y, m)
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

type point struct{ x, y int }

func columnAt(c int) int { return c * (boxWidth + gapX) }

// curve leads through the gap between two columns, from left to right.
func curve(b *strings.Builder, from, to point) point {
	middle := (from.x + to.x) / 2
	fmt.Fprintf(b, "C%d %d %d %d %d %d", middle, from.y, middle, to.y, to.x, to.y)
	return to
}

// lane is the line of a module's output past the boxes of a column.
type lane struct {
	from   string
	column int
}

// layLanes gives every edge that passes a column a height there that no box has: below
// them, one for all edges of a module.
func layLanes(p pipelines.Pipeline, columns map[string]int, below map[int]int) map[lane]int {
	lanes := map[lane]int{}
	for _, m := range p.Modules {
		for _, r := range m.Reads() {
			if r.Module == "" {
				continue
			}
			for c := columns[r.Module] + 1; c < columns[m.Name]; c++ {
				l := lane{r.Module, c}
				if _, laid := lanes[l]; !laid {
					lanes[l] = below[c]
					below[c] += gapY
				}
			}
		}
	}
	return lanes
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
		for _, r := range m.Reads() {
			if r.Module != "" {
				c = max(c, 1+column(p, r.Module, known, left-1))
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

// spark draws values over time as a line with its area, from zero to top; top of zero means the
// largest value. label is the alternative text.
func spark(values []float64, top float64, label string) template.HTML {
	const width, height = 120, 28
	if top <= 0 {
		for _, v := range values {
			top = max(top, v)
		}
	}
	if len(values) < 2 || top <= 0 {
		return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" role="img" aria-label="%s: nothing yet"></svg>`, width, height, template.HTMLEscapeString(label)))
	}
	var line strings.Builder
	step := float64(width) / float64(samples-1)
	x := float64(width) - step*float64(len(values)-1)
	first := x
	for _, v := range values {
		y := float64(height) - 1 - min(max(v/top, 0), 1)*(height-2)
		fmt.Fprintf(&line, "%.1f,%.1f ", x, y)
		x += step
	}
	return template.HTML(fmt.Sprintf(
		`<svg class="spark" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s"><polygon points="%.1f,%d %s%d,%d"/><polyline points="%s"/></svg>`,
		width, height, template.HTMLEscapeString(label), first, height, line.String(), width, height, line.String()))
}

// meter draws what is spent of a budget: the solid part up to typical, the light
// part up to high, a mark where the budget ends.
func meter(typical, high, budget float64) template.HTML {
	const width, height = 160, 12
	end := math.Max(budget, high) * 1.05
	if end <= 0 {
		return template.HTML(fmt.Sprintf(`<svg class="meter" viewBox="0 0 %d %d" role="img" aria-label="nothing measured"></svg>`, width, height))
	}
	at := func(x float64) float64 { return width * min(max(x/end, 0), 1) }
	class := "meter"
	if typical > budget {
		class += " over"
	}
	return template.HTML(fmt.Sprintf(
		`<svg class="%s" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%.3g ms and %.3g ms of %.3g ms"><rect class="rail" width="%.1f" height="%d"/><rect class="high" width="%.1f" height="%d"/><rect class="typical" width="%.1f" height="%d"/><rect class="mark" x="%.1f" width="2" height="%d"/></svg>`,
		class, width, height, typical, high, budget, at(budget), height, at(high), height, at(typical), height, max(0, at(budget)-2), height))
}
