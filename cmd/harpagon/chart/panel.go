package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	// usual is the share of values that an axis must show; what lies far above
	// them leaves the picture at the top, so that the rest can be distinguished.
	usual = 0.9
	// far is how many times the usual values are worth showing.
	far = 1.35
	// head is the free space above the highest value.
	head = 1.06
)

// plot lays the panel out.
func (p Panel) plot() (*plot.Plot, error) {
	one := plot.New()
	one.Title.Text, one.Title.TextStyle, one.Title.Padding = p.Title, letters(10.5, ink()), vg.Points(7)
	one.Title.TextStyle.XAlign, one.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	for _, axis := range []*plot.Axis{&one.X, &one.Y} {
		axis.LineStyle = stroke(0.6, faint())
		axis.Tick.LineStyle, axis.Tick.Length = stroke(0.5, faint()), vg.Points(4)
		axis.Tick.Label.Font, axis.Tick.Label.Color = letters(8.5, ink()).Font, faint()
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = letters(9, ink()).Font, ink()
		axis.Label.Padding = vg.Points(3)
		axis.Tick.Marker = round{}
		axis.Padding = 0
	}
	one.X.Label.Text, one.Y.Label.Text = p.XLabel, p.YLabel
	if err := p.ranges(one); err != nil {
		return nil, err
	}
	one.Add(background{p}, lines{p}, names{p})
	return one, nil
}

// ranges sets the axes: x to all points, y from zero to what is worth showing.
func (p Panel) ranges(one *plot.Plot) error {
	var xs, ys []float64
	for _, l := range p.Lines {
		for _, at := range l.Points {
			xs = append(xs, at.X)
			if !at.Gap {
				ys = append(ys, at.Y)
			}
		}
	}
	if len(ys) == 0 {
		return fmt.Errorf("there is nothing to draw in %q: no line has a value", p.Title)
	}
	slices.Sort(ys)
	one.X.Min, one.X.Max = slices.Min(xs), slices.Max(xs)
	if one.X.Max <= one.X.Min { // a single place
		one.X.Max = one.X.Min + 1
	}
	one.Y.Min, one.Y.Max = 0, ys[len(ys)-1]*head
	if top := ys[int(usual*float64(len(ys)-1))]; !p.LogY && ys[len(ys)-1] > top*far {
		one.Y.Max = top * far
	}
	if p.LogX {
		one.X.Scale, one.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if p.LogY {
		one.Y.Scale, one.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		one.Y.Min, one.Y.Max = math.Pow(10, math.Floor(math.Log10(max(ys[0], 1e-6)))), math.Pow(10, math.Ceil(math.Log10(one.Y.Max)))
	}
	if one.Y.Max <= one.Y.Min {
		one.Y.Max = one.Y.Min + 1
	}
	return nil
}

// round marks an axis at about six round numbers.
type round struct{}

// Ticks implements plot.Ticker.
func (round) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/6)))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step <= 7 {
			break
		}
		step *= by
	}
	var ticks []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high*(1+1e-9); k++ {
		at := k*step + 0 // no -0
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 6, 64)})
	}
	return ticks
}

// background is what lies behind the lines: hair lines at the marks of the y axis,
// shaded ranges, and the mark.
type background struct{ Panel }

// Plot implements plot.Plotter.
func (b background) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, s := range b.Shade {
		from, to := x(max(s.From, p.X.Min)), x(min(s.To, p.X.Max))
		if to <= from {
			continue
		}
		c.SetColor(shade())
		c.Fill(vg.Rectangle{Min: vg.Point{X: from, Y: c.Min.Y}, Max: vg.Point{X: to, Y: c.Max.Y}}.Path())
		label := letters(8, faint())
		label.Rotation, label.XAlign, label.YAlign = math.Pi/2, draw.XRight, draw.YCenter
		if label.Height(s.Name) < to-from {
			c.FillText(label, vg.Point{X: (from + to) / 2, Y: c.Max.Y - vg.Points(6)}, s.Name)
		}
	}
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Label != "" && tick.Value > p.Y.Min && tick.Value <= p.Y.Max {
			c.StrokeLine2(stroke(0.5, hair()), c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
	if b.Mark != nil && b.Mark.X >= p.X.Min && b.Mark.X <= p.X.Max {
		line := stroke(0.8, faint())
		line.Dashes = []vg.Length{vg.Points(1), vg.Points(2)}
		c.StrokeLine2(line, x(b.Mark.X), c.Min.Y, x(b.Mark.X), c.Max.Y)
		label := letters(8, faint())
		label.XAlign, label.YAlign = draw.XLeft, draw.YTop
		c.FillText(label, vg.Point{X: x(b.Mark.X) + vg.Points(3), Y: c.Max.Y - vg.Points(2)}, b.Mark.Name)
	}
}

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
