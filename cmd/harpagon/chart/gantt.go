package chart

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Gantt draws what ran when: a row for each device, a bar for each batch.
type Gantt struct {
	Title    string
	Footer   string
	XLabel   string
	From, To float64  // of the x axis
	Rows     []string // from the top
	Names    []string // of the kinds of bars, each with its colour
	Bars     []Bar
}

// Bar is a stretch of a row.
type Bar struct {
	Row, Kind int
	From, To  float64
	Label     string // written where there is room
}

// Measures of a Gantt.
const (
	ganttWidth   = 11 * vg.Inch
	rowHeight    = 0.26 * vg.Inch
	legendHeight = 0.3 * vg.Inch
	axisHeight   = 0.55 * vg.Inch
)

// Write draws in the format of the name's ending.
func (g Gantt) Write(w io.Writer, name string) error {
	if err := Check(name); err != nil {
		return err
	}
	if len(g.Rows) == 0 || g.To <= g.From {
		return fmt.Errorf("the picture has no rows or no time")
	}
	height := titleHeight + legendHeight + vg.Length(len(g.Rows))*rowHeight + axisHeight + footHeight
	if strings.EqualFold(filepath.Ext(name), ".svg") {
		canvas := vgsvg.New(ganttWidth, height)
		g.draw(draw.New(canvas))
		_, err := canvas.WriteTo(w)
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(ganttWidth, height), vgimg.UseDPI(resolution))
	g.draw(draw.New(canvas))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func (g Gantt) draw(c draw.Canvas) {
	c.SetColor(paper())
	c.Fill(c.Rectangle.Path())
	title := letters(13, ink())
	title.XAlign, title.YAlign = draw.XLeft, draw.YCenter
	c.FillText(title, vg.Point{X: c.Min.X + padding, Y: c.Max.Y - titleHeight*0.55}, g.Title)
	foot := letters(8.5, faint())
	foot.XAlign, foot.YAlign = draw.XLeft, draw.YCenter
	c.FillText(foot, vg.Point{X: c.Min.X + padding, Y: c.Min.Y + footHeight*0.5}, g.Footer)
	g.legend(c)

	one := plot.New()
	one.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&one.X, &one.Y} {
		axis.LineStyle = stroke(0.6, faint())
		axis.Tick.LineStyle, axis.Tick.Length = stroke(0.5, faint()), vg.Points(4)
		axis.Tick.Label.Font, axis.Tick.Label.Color = letters(8.5, ink()).Font, faint()
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = letters(9, ink()).Font, ink()
		axis.Padding = 0
	}
	one.X.Label.Text, one.X.Tick.Marker = g.XLabel, round{}
	one.X.Min, one.X.Max = g.From, g.To
	one.Y.Min, one.Y.Max = 0, float64(len(g.Rows))
	one.Y.LineStyle.Width, one.Y.Tick.Length = 0, 0
	var ticks plot.ConstantTicks
	for i, name := range g.Rows {
		ticks = append(ticks, plot.Tick{Value: float64(len(g.Rows)-i) - 0.5, Label: name})
	}
	one.Y.Tick.Marker = ticks
	one.Add(bars{g})
	one.Draw(draw.Crop(c, padding, -padding, footHeight, -titleHeight-legendHeight))
}

// legend names the kinds of bars, in one line as far as there is room.
func (g Gantt) legend(c draw.Canvas) {
	x, y := c.Min.X+padding, c.Max.Y-titleHeight-legendHeight*0.4
	size := vg.Points(9)
	for i, name := range g.Names {
		label := letters(9, ink())
		label.XAlign, label.YAlign = draw.XLeft, draw.YCenter
		width := size + vg.Points(5) + label.Width(name) + vg.Points(16)
		if x+width > c.Max.X-vg.Points(20) {
			c.FillText(label, vg.Point{X: x, Y: y}, "...")
			return
		}
		c.SetColor(palette(i + 1))
		c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - size/2}, Max: vg.Point{X: x + size, Y: y + size/2}}.Path())
		c.FillText(label, vg.Point{X: x + size + vg.Points(5), Y: y}, name)
		x += width
	}
}

// bars draws the bars of a Gantt over hair lines between its rows.
type bars struct{ Gantt }

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	n := float64(len(b.Rows))
	for i := range b.Rows {
		c.StrokeLine2(stroke(0.5, hair()), c.Min.X, y(float64(i+1)), c.Max.X, y(float64(i+1)))
	}
	for _, bar := range b.Bars {
		from, to := x(max(bar.From, b.From)), x(min(bar.To, b.To))
		low, high := y(n-float64(bar.Row)-0.88), y(n-float64(bar.Row)-0.12)
		box := vg.Rectangle{Min: vg.Point{X: from, Y: low}, Max: vg.Point{X: to, Y: high}}
		c.SetColor(palette(bar.Kind + 1))
		c.Fill(box.Path())
		c.StrokeLine2(stroke(0.8, paper()), to, low, to, high) // batches follow each other without a gap
		label := letters(7.5, paper())
		label.XAlign, label.YAlign = draw.XCenter, draw.YCenter
		if label.Width(bar.Label)+vg.Points(3) < to-from {
			c.FillText(label, vg.Point{X: (from + to) / 2, Y: (low + high) / 2}, bar.Label)
		}
	}
}
