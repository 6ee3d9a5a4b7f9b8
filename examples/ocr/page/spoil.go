package page

import (
	"image"
	"math"
	"math/rand/v2"
)

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
