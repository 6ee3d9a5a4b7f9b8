package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func paper() color.Color { return color.White }
func ink() color.Color   { return color.RGBA{0x22, 0x26, 0x2b, 0xff} }
func faint() color.Color { return color.RGBA{0x6b, 0x72, 0x7a, 0xff} }
func hair() color.Color  { return color.RGBA{0xe3, 0xe6, 0xe9, 0xff} }
func shade() color.Color { return color.RGBA{0xf3, 0xf0, 0xea, 0xff} }

// palette is that of Okabe and Ito, which people with any sight of colours can
// tell apart, without its yellow, and three more for long lists. The first is
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
