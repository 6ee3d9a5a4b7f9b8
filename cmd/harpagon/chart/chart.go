// Package chart draws costs and times as pictures: a grid of panels with lines
// that carry their names at their ends, as SVG or PNG.
//
// A line shows an amount by its height, and by being solid or dashed whether it can be
// relied on. Where a line has no value it stops; where no line has one, the panel is
// shaded.
//
// Package gonum.org/v1/plot does the drawing; what stands here is the choice of
// ranges, colours and places of names.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is a grid of panels with a title and a line of small print.
type Picture struct {
	Title  string
	Footer string
	Rows   [][]Panel // each of the same length
}

// Panel is one diagram.
type Panel struct {
	Title          string
	XLabel, YLabel string
	LogX, LogY     bool
	Lines          []Line
	Mark           *Mark    // a vertical line, nil for none
	Shade          []Shaded // ranges where there is nothing to show
}

// Line is a named sequence of points.
type Line struct {
	Name   string
	Colour int // of the palette; the same number is the same colour in all panels
	Points []Point
}

// Point of a line. A line stops at a point that is a gap and goes on after it.
type Point struct {
	X, Y   float64
	Gap    bool
	Dashed bool
}

// Mark is a place on the x axis that has a name.
type Mark struct {
	X    float64
	Name string
}

// Shaded is a range of the x axis that has a name.
type Shaded struct {
	From, To float64
	Name     string
}

// Measures of a picture.
const (
	panelWidth  = 5.6 * vg.Inch
	panelHeight = 3.9 * vg.Inch
	titleHeight = 0.45 * vg.Inch
	footHeight  = 0.35 * vg.Inch
	padding     = 0.18 * vg.Inch
	resolution  = 144 // dots per inch of a PNG
)

// formats lists the endings of file names that Write supports.
func formats() []string { return []string{".svg", ".png"} }

// Check reports whether a picture can be written to a file of this name.
func Check(name string) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("%s is no picture; end the name in %s", name, strings.Join(formats(), " or "))
}

// Write draws the picture in the format of the name's ending.
func (p Picture) Write(w io.Writer, name string) error {
	if err := Check(name); err != nil {
		return err
	}
	if len(p.Rows) == 0 || len(p.Rows[0]) == 0 {
		return fmt.Errorf("the picture has no panels")
	}
	width := vg.Length(len(p.Rows[0]))*panelWidth + padding
	height := vg.Length(len(p.Rows))*panelHeight + titleHeight + footHeight
	if strings.EqualFold(filepath.Ext(name), ".svg") {
		canvas := vgsvg.New(width, height)
		if err := p.draw(draw.New(canvas)); err != nil {
			return err
		}
		return writeSVG(w, canvas)
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))
	if err := p.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// writeSVG names fonts of the same widths beside the one that the library drew
// with, which few machines have.
func writeSVG(w io.Writer, canvas *vgsvg.Canvas) error {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	const drawn = "font-family:Liberation Sans"
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte(drawn), []byte(drawn+",Arial,Helvetica,sans-serif")))
	return err
}

func (p Picture) draw(c draw.Canvas) error {
	c.SetColor(paper())
	c.Fill(c.Rectangle.Path())
	title := letters(13, ink())
	title.XAlign, title.YAlign = draw.XLeft, draw.YCenter
	c.FillText(title, vg.Point{X: c.Min.X + padding, Y: c.Max.Y - titleHeight*0.55}, p.Title)
	foot := letters(8.5, faint())
	foot.XAlign, foot.YAlign = draw.XLeft, draw.YCenter
	c.FillText(foot, vg.Point{X: c.Min.X + padding, Y: c.Min.Y + footHeight*0.5}, p.Footer)

	grid := draw.Crop(c, 0, 0, footHeight, -titleHeight)
	tiles := draw.Tiles{Rows: len(p.Rows), Cols: len(p.Rows[0]), PadX: padding, PadY: padding, PadLeft: padding, PadRight: padding, PadTop: padding / 2}
	plots := make([][]*plot.Plot, len(p.Rows))
	for i, row := range p.Rows {
		for _, panel := range row {
			one, err := panel.plot()
			if err != nil {
				return err
			}
			plots[i] = append(plots[i], one)
		}
	}
	for i, row := range plot.Align(plots, tiles, grid) {
		for k, tile := range row {
			plots[i][k].Draw(tile)
		}
	}
	return nil
}

func paper() color.Color { return color.White }
func ink() color.Color   { return color.RGBA{0x22, 0x26, 0x2b, 0xff} }
func faint() color.Color { return color.RGBA{0x6b, 0x72, 0x7a, 0xff} }
func hair() color.Color  { return color.RGBA{0xe3, 0xe6, 0xe9, 0xff} }
func shade() color.Color { return color.RGBA{0xf3, 0xf0, 0xea, 0xff} }

// palette is that of Okabe and Ito, which people with any sight of colours can
// distinguish, without its yellow, and three more for long lists. The first is
// for what matters most.
func palette(i int) color.Color {
	list := []color.RGBA{
		{0x11, 0x11, 0x11, 0xff}, // black
		{0x00, 0x72, 0xb2, 0xff}, // blue
		{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		{0x00, 0x9e, 0x73, 0xff}, // green
		{0xcc, 0x79, 0xa7, 0xff}, // purple
		{0xe6, 0x9f, 0x00, 0xff}, // orange
		{0x56, 0xb4, 0xe9, 0xff}, // sky
		{0x7a, 0x5c, 0x3e, 0xff}, // brown
		{0x8a, 0x8f, 0x98, 0xff}, // grey
		{0x5b, 0x3a, 0x9e, 0xff}, // violet
	}
	return list[i%len(list)]
}

// letters is a style of text in points.
func letters(size float64, c color.Color) text.Style {
	face := font.Font{Typeface: "Liberation", Variant: "Sans"}
	return text.Style{Color: c, Font: font.From(face, vg.Length(size)), Handler: plot.DefaultTextHandler}
}

func stroke(width float64, c color.Color) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Points(width)}
}

func dashes() []vg.Length { return []vg.Length{vg.Points(4), vg.Points(2.5)} }
