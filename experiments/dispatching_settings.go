package experiments

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Parts of the evaluation, in the order of its tables.
const (
	partTable4   = "table4"
	partNetworks = "networks"
	partMixed    = "mixed"
	partBursts   = "bursts"
	partDevices  = "devices"
	partModels   = "models"
)

// DispatchSetting is a pool and what it serves.
type DispatchSetting struct {
	Part    string
	Group   string // settings of one group make a line of a picture; may be empty
	Name    string
	X       float64 // place in the group: devices, models, shape
	Models  []Network
	Popular float64 // exponent of Zipf's law over the models; 0 where all are asked for equally
	Devices int
	Shape   float64 // of gamma gaps; 1 is Poisson
	Delay   dispatch.Delay
	Seeds   int                // runs at each rate, where more than the effort's
	Printed map[string]float64 // goodputs in the paper, by policy, and its staggered bound
}

// largestBatch bounds the batches of all networks.
const largestBatch = 256

const deviceKind = "device"

// weights are the models' shares of the requests.
func (s *DispatchSetting) weights() []float64 {
	w, sum := make([]float64, len(s.Models)), 0.0
	for i := range w {
		w[i] = math.Pow(float64(i+1), -s.Popular)
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// Loads are the requests of the setting at that total rate.
func (s *DispatchSetting) Loads(rate float64) []simulate.Load {
	how := arrivals.Process{Kind: pipelines.ArrivalsPoisson}
	if s.Shape != 1 {
		how = arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: s.Shape}
	}
	var loads []simulate.Load
	for i, w := range s.weights() {
		loads = append(loads, simulate.Load{Pipeline: s.Models[i].pipeline(i), Arrivals: how, Rate: w * rate})
	}
	return loads
}

// pipeline of one module that is the network.
func (n Network) pipeline(i int) pipelines.Pipeline {
	m := pipelines.Module{Name: "model", Fanout: 1}
	for b, l := range n.Table(largestBatch) {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: deviceKind, Batch: b + 1, Concurrency: 1, Duration: l})
	}
	return pipelines.Pipeline{Name: fmt.Sprintf("%s-%d", n.Name, i), SLO: millis(n.SLO), Modules: []pipelines.Module{m}}
}

// Bound is above what any policy can reach: every device busy all the time,
// with the largest batch that leaves its first request any time to wait, and
// nothing served of what is let go.
func (s *DispatchSetting) Bound() float64 {
	work := 0.0 // deviceKind seconds per request
	for i, w := range s.weights() {
		table := s.Models[i].Table(largestBatch)
		work += w * table[len(table)-1].Seconds() / float64(len(table))
	}
	return float64(s.Devices) / work / simulate.DefaultAttainment
}

// dispatchSettings lists the settings.
func dispatchSettings() []DispatchSetting {
	var all []DispatchSetting
	all = append(all, symphonyTable4()...)
	all = append(all, networks()...)
	all = append(all, mixed()...)
	all = append(all, bursts()...)
	all = append(all, devices()...)
	return append(all, models()...)
}

// Delays are those of the authors' code: 100 µs a message and 50 µs a request.
func Delays() dispatch.Delay {
	return dispatch.Delay{Control: 100 * time.Microsecond, PerRequest: 50 * time.Microsecond}
}

func symphonyTable4() []DispatchSetting {
	var list []DispatchSetting
	printed := []map[string]float64{
		{deferred: 5169, "nexus": 3965, "clockwork": 2036, "staggered": 5839},
		{deferred: 907, "nexus": 590, "clockwork": 482, "staggered": 1083},
	}
	for i, n := range table4() {
		one := DispatchSetting{Part: partTable4, Name: n.Name, Models: []Network{n}, Devices: 8, Shape: 1, Seeds: 10, Printed: printed[i]}
		list = append(list, one)
		one.Printed, one.Name, one.Delay = nil, n.Name+", network delays", Delays()
		list = append(list, one)
	}
	return list
}

func networks() []DispatchSetting {
	var list []DispatchSetting
	for _, of := range []struct {
		hardware string
		networks []Network
	}{{"1080 Ti", gtx1080Ti()}, {"A100", a100()}} {
		for _, n := range of.networks {
			list = append(list, DispatchSetting{Part: partNetworks, Name: n.Name + ", " + of.hardware, Models: []Network{n}, Devices: 8, Shape: 1})
		}
	}
	return list
}

func mixed() []DispatchSetting {
	var list []DispatchSetting
	for _, of := range []struct {
		hardware string
		networks []Network
	}{{"1080 Ti", gtx1080Ti()}, {"A100", a100()}} {
		for _, popular := range []float64{0, 0.9} {
			for _, n := range []int{16, 64, 256} {
				list = append(list, DispatchSetting{
					Part: partMixed, Name: fmt.Sprintf("all %d of the %s, %s, %d devices", len(of.networks), of.hardware, asked(popular), n),
					Models: of.networks, Popular: popular, Devices: n, Shape: 1,
				})
			}
		}
	}
	return list
}

func asked(popular float64) string {
	if popular == 0 {
		return "equal"
	}
	return fmt.Sprintf("Zipf %g", popular)
}

// alike are copies of the first network of table 4 with another SLO.
func alike(n int, slo float64) []Network {
	one := table4()[0]
	one.SLO = slo
	list := make([]Network, n)
	for i := range list {
		list[i] = one
	}
	return list
}

func bursts() []DispatchSetting {
	var list []DispatchSetting
	for _, slo := range []float64{15, 25, 50, 100} {
		for _, popular := range []float64{0, 0.9} {
			for _, shape := range []float64{0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1} {
				list = append(list, DispatchSetting{
					Part: partBursts, Group: fmt.Sprintf("SLO %g ms, %s", slo, asked(popular)), X: shape,
					Name:   fmt.Sprintf("20 models, 32 devices, SLO %g ms, %s, gamma %g", slo, asked(popular), shape),
					Models: alike(20, slo), Popular: popular, Devices: 32, Shape: shape,
				})
			}
		}
	}
	return list
}

func devices() []DispatchSetting {
	var list []DispatchSetting
	for _, count := range []int{1, 20} {
		for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} {
			list = append(list, DispatchSetting{
				Part: partDevices, Group: many(count), X: float64(n), Name: fmt.Sprintf("%s, %d devices", many(count), n),
				Models: alike(count, 50), Devices: n, Shape: 1,
			})
		}
	}
	return list
}

func many(count int) string {
	if count == 1 {
		return "1 model"
	}
	return fmt.Sprintf("%d models", count)
}

func models() []DispatchSetting {
	var list []DispatchSetting
	for _, popular := range []float64{0, 0.9} {
		for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
			list = append(list, DispatchSetting{
				Part: partModels, Group: asked(popular), X: float64(n), Name: fmt.Sprintf("%s, %s, 32 devices", many(n), asked(popular)),
				Models: alike(n, 50), Popular: popular, Devices: 32, Shape: 1,
			})
		}
	}
	return list
}

// Of lists the settings of a part.
func Of(part string) []DispatchSetting {
	return slices.DeleteFunc(dispatchSettings(), func(s DispatchSetting) bool { return s.Part != part })
}
