package console

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// spark draws values over time as a line with its area, from zero to top; top of
// zero means the largest value. label says what it shows to whoever cannot see it.
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
