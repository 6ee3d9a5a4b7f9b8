package chart

import (
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
	// them leaves the picture at the top, so that the rest can be told apart.
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
