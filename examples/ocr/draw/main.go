// Command draw draws pages of the example, or shows what the pipeline reads on
// pictures:
//
//	go run ./examples/ocr/draw                     # the pages in examples/ocr/pages
//	go run ./examples/ocr/draw read PICTURE...     # PICTURE-read.png with boxes and text
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // pictures to read
	"image/png"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/harpagon/harpagon/examples/ocr"
	"github.com/harpagon/harpagon/examples/ocr/page"
)

func main() {
	log.SetFlags(0)
	to := flag.String("to", "examples/ocr/pages", "folder of the pages")
	declaration := flag.String("declaration", "examples/ocr/ocr.hcl", "of the pipeline")
	flag.Parse()
	var err error
	if flag.Arg(0) == "read" {
		err = read(*declaration, flag.Args()[1:])
	} else {
		err = pages(*to)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// pages draws a page of each kind and writes down their text.
func pages(to string) error {
	truth := map[string][]string{}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, kind := range page.Kinds() {
		for n := range uint64(1) {
			p := page.Draw(n+1, kind)
			name := fmt.Sprintf("%s-%d.png", kind, n+1)
			truth[name] = p.Lines
			if err := write(filepath.Join(to, name), p.Image); err != nil {
				return err
			}
		}
	}
	raw, err := json.MarshalIndent(truth, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "truth.json"), append(raw, '\n'), 0o644)
}

func write(path string, img image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		return err
	}
	return f.Close()
}

func read(declaration string, pictures []string) error {
	if err := ocr.Installed("."); err != nil {
		return err
	}
	r, err := ocr.NewReader(declaration)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, path := range pictures {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		img, _, err := image.Decode(f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		lines, err := r.Read(img)
		if err != nil {
			return err
		}
		fmt.Printf("%s:\n%s\n\n", path, ocr.Text(lines))
		if err := write(strings.TrimSuffix(path, filepath.Ext(path))+"-read.png", shown(img, lines)); err != nil {
			return err
		}
	}
	return nil
}

// shown is the picture with the boxes, and what was read beside it.
func shown(img image.Image, lines []ocr.Line) image.Image {
	b := img.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, 2*b.Dx(), b.Dy()))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(out, image.Rect(0, 0, b.Dx(), b.Dy()), img, b.Min, draw.Src)
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the font is part of its module
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 14, DPI: 72})
	if err != nil {
		panic(err)
	}
	for i, l := range lines {
		for k := range 4 {
			stroke(out, l.Quad[2*k], l.Quad[2*k+1], l.Quad[(2*k+2)%8], l.Quad[(2*k+3)%8], k == 0)
		}
		text := font.Drawer{Dst: out, Src: image.Black, Face: face, Dot: fixed.P(b.Dx()+10, 22+i*20)}
		text.DrawString(fmt.Sprintf("%.2f  %s", l.Confidence, l.Text))
	}
	return out
}

// stroke draws a side of a box; the side above the letters is red.
func stroke(img *image.RGBA, x0, y0, x1, y1 float32, above bool) {
	c := color.RGBA{20, 90, 220, 255}
	if above {
		c = color.RGBA{220, 30, 30, 255}
	}
	const steps = 600
	for i := range steps {
		w := float32(i) / steps
		img.SetRGBA(int(x0+(x1-x0)*w), int(y0+(y1-y0)*w), c)
	}
}
