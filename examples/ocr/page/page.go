// Package page draws pages of text whose words are known: several fonts, sizes,
// colours and angles, upside down too, and with noise, blur and stains where options set
// them. The same seed draws the same page.
package page

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/f64"
	"golang.org/x/image/math/fixed"
)

// The size of a page in pixels.
const (
	Width  = 480
	Height = 640
)

// Kind states how hard a page is to read.
type Kind string

// The kinds.
const (
	Clean  Kind = "clean"  // dark on light, level
	Slant  Kind = "slant"  // turned by up to eight degrees
	Turned Kind = "turned" // upside down, and turned a little
	Noisy  Kind = "noisy"  // slanted, with noise, blur, stains and weak ink
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Clean, Slant, Turned, Noisy} }

// Page is a picture with its text.
type Page struct {
	Image *image.RGBA
	Lines []string // from the top, as a reader sees it
	Angle float64  // degrees by which the page is turned, clockwise
}

// Text is the lines with breaks between them.
func (p Page) Text() string { return strings.Join(p.Lines, "\n") }

// Draw draws a page.
func Draw(seed uint64, kind Kind) Page {
	rng := rand.New(rand.NewPCG(seed, uint64(slices.Index(Kinds(), kind))))
	p := Page{Angle: angle(kind, rng)}
	paper, ink := colours(kind, rng)
	flat := image.NewRGBA(image.Rect(0, 0, Width, Height))
	draw.Draw(flat, flat.Bounds(), image.NewUniform(paper), image.Point{}, draw.Src)
	margin := 30
	if p.Angle != 0 {
		margin = 70 // corners would leave the page
	}
	fonts := fonts()
	for y := margin; ; {
		size := 15 + 15*rng.Float64()
		face, err := opentype.NewFace(fonts[rng.IntN(len(fonts))], &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			panic(err) // the size is a fair one, or the package is broken
		}
		high := int(size * 1.25)
		if y+high > Height-margin {
			break
		}
		text := phrase(rng, face, Width-2*margin)
		write := font.Drawer{Dst: flat, Src: image.NewUniform(ink), Face: face}
		write.Dot = fixed.P(margin+rng.IntN(8), y+int(size))
		write.DrawString(text)
		p.Lines = append(p.Lines, text)
		y += high + 8 + rng.IntN(14)
	}
	p.Image = turn(flat, paper, p.Angle)
	if kind == Noisy {
		spoil(p.Image, rng)
	}
	return p
}

func angle(kind Kind, rng *rand.Rand) float64 {
	slight := math.Round((rng.Float64()-0.5)*160) / 10
	switch kind {
	case Clean:
		return 0
	case Turned:
		return 180 + slight/4
	}
	return slight
}

// colours of the paper and the ink.
func colours(kind Kind, rng *rand.Rand) (paper, ink color.RGBA) {
	light := func(low int) uint8 { return uint8(low + rng.IntN(256-low)) }
	dark := func(high int) uint8 { return uint8(rng.IntN(high)) }
	paper = color.RGBA{light(225), light(225), light(225), 255}
	ink = color.RGBA{dark(80), dark(80), dark(80), 255}
	if kind == Noisy {
		ink = color.RGBA{60 + dark(70), 60 + dark(70), 60 + dark(70), 255}
	}
	return paper, ink
}

func fonts() []*opentype.Font {
	var all []*opentype.Font
	for _, ttf := range [][]byte{goregular.TTF, gobold.TTF, goitalic.TTF, gomedium.TTF, gomono.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic(err) // the fonts are part of their module
		}
		all = append(all, f)
	}
	return all
}

// turn turns the picture clockwise about its middle.
func turn(flat *image.RGBA, paper color.RGBA, degrees float64) *image.RGBA {
	if degrees == 0 {
		return flat
	}
	out := image.NewRGBA(flat.Bounds())
	draw.Draw(out, out.Bounds(), image.NewUniform(paper), image.Point{}, draw.Src)
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	cx, cy := float64(Width)/2, float64(Height)/2
	draw.BiLinear.Transform(out, f64.Aff3{
		cos, -sin, cx - cos*cx + sin*cy,
		sin, cos, cy - sin*cx - cos*cy,
	}, flat, flat.Bounds(), draw.Over, nil)
	return out
}

// words that lines are made of.
func words() []string {
	return strings.Fields(`harbour window letter seven bridge copper garden market silver paper mountain
		Winter Station Morning Ticket Number Order Museum Library Office Kitchen
		river orange simple travel engine summer pocket mirror candle planet
		quick brown jacket zebra violin oxygen puzzle winding yellow queen
		total amount receipt service account balance street north south delivery
		Open Monday Tuesday Friday Weekend Parking Platform Entrance Exit Floor`)
}

// phrase is a line of words and numbers that fits the width in pixels.
func phrase(rng *rand.Rand, face font.Face, width int) string {
	all := words()
	var line []string
	most := 1 + rng.IntN(5)
	for range most {
		next := all[rng.IntN(len(all))]
		switch rng.IntN(6) {
		case 0:
			next = fmt.Sprint(10 + rng.IntN(9990))
		case 1:
			next = fmt.Sprintf("%d.%02d", 1+rng.IntN(400), rng.IntN(100))
		}
		longer := strings.Join(append(line[:len(line):len(line)], next), " ")
		if len(line) > 0 && font.MeasureString(face, longer).Ceil() > width-10 {
			break
		}
		line = append(line, next)
	}
	return strings.Join(line, " ")
}

// spoil lays stains, a shadow and noise over a picture and blurs it.
func spoil(img *image.RGBA, rng *rand.Rand) {
	blur(img, 0.15+0.1*rng.Float64())
	type stain struct{ x, y, r, depth float64 }
	var stains []stain
	for range 3 + rng.IntN(4) {
		stains = append(stains, stain{rng.Float64() * Width, rng.Float64() * Height, 20 + 60*rng.Float64(), 10 + 25*rng.Float64()})
	}
	shadow, grain := 40*rng.Float64(), 8+10*rng.Float64()
	for y := range Height {
		for x := range Width {
			darker := shadow * float64(x) / Width
			for _, s := range stains {
				if d := math.Hypot(float64(x)-s.x, float64(y)-s.y); d < s.r {
					darker += s.depth * (1 - d/s.r)
				}
			}
			at := img.PixOffset(x, y)
			for c := range 3 {
				v := float64(img.Pix[at+c]) - darker + grain*rng.NormFloat64()
				img.Pix[at+c] = uint8(min(max(v, 0), 255))
			}
		}
	}
}

// blur mixes every pixel with its four neighbours, each by the share.
func blur(img *image.RGBA, share float64) {
	from := append([]uint8(nil), img.Pix...)
	for y := 1; y < Height-1; y++ {
		for x := 1; x < Width-1; x++ {
			at := img.PixOffset(x, y)
			for c := at; c < at+3; c++ {
				around := float64(from[c-4]) + float64(from[c+4]) + float64(from[c-img.Stride]) + float64(from[c+img.Stride])
				img.Pix[c] = uint8((1-4*share)*float64(from[c]) + share*around)
			}
		}
	}
}
