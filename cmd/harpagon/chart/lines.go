package chart

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	thin, thick = 1.5, 2.4 // points; thick is for the first colour
	nameSize    = 9.0      // points
	nameGap     = 11.0     // points between the middles of two names
	nameIndent  = 16.0     // points between the end of a line and its name
	early       = 60.0     // points before the right edge from which a line's name stands inside
)

// lines draws the lines of a panel, the first in the list on top.
type lines struct{ Panel }

// Plot implements plot.Plotter.
func (l lines) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, line := range slices.Backward(l.Lines) {
		for _, run := range runs(line.Points) {
			style := stroke(thin, palette(line.Colour))
			if line.Colour == 0 {
				style.Width = vg.Points(thick)
			}
			if run.dashed {
				style.Dashes = dashes()
			}
			var path []vg.Point
			for _, at := range run.points {
				path = append(path, vg.Point{X: x(at.X), Y: y(at.Y)})
			}
			if len(path) == 1 {
				dot := draw.GlyphStyle{Color: style.Color, Radius: vg.Points(1.6), Shape: draw.CircleGlyph{}}
				if c.Contains(path[0]) {
					c.DrawGlyph(dot, path[0])
				}
				continue
			}
			c.StrokeLines(style, c.ClipLinesXY(path)...)
		}
	}
}

// run is a stretch of a line without gaps that is solid or dashed throughout.
type run struct {
	dashed bool
	points []Point
}

// runs cuts a line at its gaps and where it turns from solid to dashed or back:
// the piece between two points is solid when both are.
func runs(points []Point) []run {
	var list []run
	open := false
	for i, at := range points {
		if at.Gap {
			open = false
			continue
		}
		if !open {
			list = append(list, run{dashed: at.Dashed, points: []Point{at}})
			open = true
			continue
		}
		last := &list[len(list)-1]
		dashed := at.Dashed || points[i-1].Dashed
		switch {
		case len(last.points) == 1:
			last.dashed = dashed
		case last.dashed != dashed:
			list = append(list, run{dashed: dashed, points: []Point{points[i-1]}})
			last = &list[len(list)-1]
		}
		last.points = append(last.points, at)
	}
	return list
}

// names writes the names of the lines at their right ends: outside the axes
// where a line comes to the edge, and beside its end where it stops early.
type names struct{ Panel }

// name is where a line ends and where its name goes.
type name struct {
	text   string
	colour int
	end    vg.Point
	y      vg.Length
}

// GlyphBoxes implements plot.GlyphBoxer: it keeps room at the right.
func (n names) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	widest := vg.Length(0)
	for _, l := range n.Lines {
		widest = max(widest, letters(nameSize, ink()).Width(l.Name))
	}
	return []plot.GlyphBox{{X: 1, Y: 0.5, Rectangle: vg.Rectangle{Max: vg.Point{X: widest + vg.Points(nameIndent+4)}}}}
}

// Plot implements plot.Plotter.
func (n names) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var right, inside []name
	for _, l := range n.Lines {
		for _, at := range slices.Backward(l.Points) {
			if at.Gap {
				continue
			}
			end := vg.Point{X: x(at.X), Y: min(y(at.Y), c.Max.Y)}
			one := name{text: l.Name, colour: l.Colour, end: end, y: end.Y}
			if end.X < c.Max.X-vg.Points(early) {
				inside = append(inside, one)
			} else {
				right = append(right, one)
			}
			break
		}
	}
	spread(right, vg.Points(nameGap), c.Min.Y, c.Max.Y)
	for _, one := range right {
		one.write(c, c.Max.X+vg.Points(nameIndent))
	}
	for _, near := range neighbours(inside) {
		spread(near, vg.Points(nameGap), c.Min.Y, c.Max.Y)
		for _, one := range near {
			one.write(c, one.end.X+vg.Points(nameIndent))
		}
	}
}

// write puts the name at a place, with a thin line to the end of its own.
func (n name) write(c draw.Canvas, at vg.Length) {
	c.StrokeLines(stroke(0.6, palette(n.colour)), []vg.Point{
		{X: n.end.X + vg.Points(2), Y: n.end.Y}, {X: at - vg.Points(5), Y: n.y}, {X: at - vg.Points(2), Y: n.y},
	})
	style := letters(nameSize, palette(n.colour))
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	c.FillText(style, vg.Point{X: at, Y: n.y}, n.text)
}

// neighbours groups names of lines that end so close to each other that the
// names could meet.
func neighbours(all []name) [][]name {
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(a.end.X, b.end.X) })
	var groups [][]name
	for i, one := range all {
		if i > 0 && one.end.X-all[i-1].end.X < vg.Points(early) {
			groups[len(groups)-1] = append(groups[len(groups)-1], one)
			continue
		}
		groups = append(groups, []name{one})
	}
	return groups
}

// spread moves names apart until none covers another, keeping their order and,
// as far as they fit, their places between low and high.
func spread(all []name, gap, low, high vg.Length) {
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(a.y, b.y) })
	for i := range all { // upwards
		all[i].y = max(all[i].y, low)
		if i > 0 {
			all[i].y = max(all[i].y, all[i-1].y+gap)
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // and down again from the top
		all[i].y = min(all[i].y, high)
		if i < len(all)-1 {
			all[i].y = min(all[i].y, all[i+1].y-gap)
		}
	}
}
