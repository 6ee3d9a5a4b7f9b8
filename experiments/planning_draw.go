package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Families of profiles.
const (
	Affine  = "affine"
	Stairs  = "stairs"
	Noisy   = "noisy"
	Gaining = "gaining"
	Tiring  = "tiring"
)

// Families lists the families that profiles are drawn from.
func Families() []string { return []string{Affine, Stairs, Noisy, Gaining, Tiring} }

const (
	tiringFrom = 8.0 // batch from which a request takes longer
	tiringBy   = 1.3 // times as long
)

// drawer is a stream of random choices; nothing else in the package is random.
type drawer struct {
	*rand.Rand
	from Regime
}

func (d drawer) between(low, high float64) float64 { return low + (high-low)*d.Float64() }

func (d drawer) logarithmic(low, high float64) float64 {
	return math.Exp(d.between(math.Log(low), math.Log(high)))
}

func (d drawer) family() string { return d.from.Families[d.IntN(len(d.from.Families))] }

// drawnDevice is a kind of hardware and how fast it is.
type drawnDevice struct {
	name  string
	speed float64 // 1 for the fastest
	price float64
}

func (d drawer) devices() []drawnDevice {
	if d.from.Devices != nil {
		return d.from.Devices(d)
	}
	top, power := d.between(1, 4), d.between(0.8, 1.5)
	return d.kinds(2+d.IntN(2), top, power, func() float64 { return d.between(0.35, 0.75) })
}

// kinds are n devices, each slower than the one before by what slower draws.
func (d drawer) kinds(n int, top, power float64, slower func() float64) []drawnDevice {
	list := []drawnDevice{{name: "gpu-1", speed: 1, price: rounded(top, 100)}}
	for len(list) < n {
		speed := list[len(list)-1].speed * slower()
		price := top * math.Pow(speed, power) * d.between(0.85, 1.15)
		list = append(list, drawnDevice{name: fmt.Sprintf("gpu-%d", len(list)+1), speed: speed, price: max(0.01, rounded(price, 100))})
	}
	return list
}

func (d drawer) batches() []int {
	if len(d.from.Batches) > 0 {
		return d.from.Batches[d.IntN(len(d.from.Batches))]
	}
	list := []int{1, 2, 4, 8, 16, 32}
	if d.IntN(4) == 0 {
		list = append(list, 64)
	}
	return list
}

// points is a profile of the family on all devices.
func (d drawer) points(family string, devices []drawnDevice, batches []int) []pipelines.Point {
	start, step := d.logarithmic(d.from.Start[0], d.from.Start[1]), d.logarithmic(d.from.Step[0], d.from.Step[1])
	width := float64(4 + 4*d.IntN(2))
	gain := d.between(0.7, 0.95)
	var list []pipelines.Point
	for _, dev := range devices {
		for _, batch := range batches {
			b, noise := float64(batch), 1.0
			switch family {
			case Stairs:
				b = width * math.Ceil(b/width)
			case Noisy:
				noise = d.between(0.95, 1.08)
			case Gaining:
				b = math.Pow(b, gain)
			case Tiring:
				b += (tiringBy - 1) * max(0, b-tiringFrom)
			}
			ms := noise * (start/math.Sqrt(dev.speed) + step*b/dev.speed)
			list = append(list, pipelines.Point{
				Hardware: dev.name, Batch: batch, Concurrency: 1,
				Duration: time.Duration(rounded(ms, 1000) * float64(time.Millisecond)),
			})
		}
	}
	return list
}

func drawnHardware(devices []drawnDevice) []pipelines.Hardware {
	var list []pipelines.Hardware
	for _, dev := range devices {
		list = append(list, pipelines.Hardware{Name: dev.name, Price: dev.price})
	}
	return list
}

// rounded is x to the nearest of so many parts of one, so that problems can be
// written down with few digits.
func rounded(x, parts float64) float64 { return math.Round(x*parts) / parts }
