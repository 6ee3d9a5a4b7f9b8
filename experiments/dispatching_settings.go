package experiments

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
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
	Popular float64 // exponent of Zipf's law over the models; 0 where all are equally popular
	Devices int
	Shape   float64 // of gamma gaps; 1 is Poisson
	Delay   dispatch.Delay
	Noise   float64                           // coefficient of variation of the time of a batch
	Seeds   int                               // runs at each rate, where more than the effort's
	Pooled  bool                              // the share in time is that of all requests, not that of the network with the least
	Kept    func(policy string) time.Duration // what a policy keeps before deadlines; nil for nothing
	Sizes   shared.Sizes                      // of clockwork's batches
	Printed map[string]float64                // goodputs in the paper, by policy, and its staggered bound
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
	all = append(all, drawSettings()...)
	return append(all, models()...)
}

// Delays are those of the authors' code: 100 µs a message and 50 µs a request.
func Delays() dispatch.Delay {
	return dispatch.Delay{Control: 100 * time.Microsecond, PerRequest: 50 * time.Microsecond}
}

// shepherdDelays are those of Shepherd in the authors' program.
func shepherdDelays() dispatch.Delay {
	return dispatch.Delay{Control: 25 * time.Microsecond, PerRequest: 75 * time.Microsecond}
}

// What Clockwork, Nexus and the authors' scheduler keep before a deadline.
const (
	keptByClockwork = 5 * time.Millisecond
	keptByNexus     = 2 * time.Millisecond
	keptForAnswers  = 2 * time.Millisecond
)

// settings are those under the assumptions that hold.
func (e *Env) settings(list []DispatchSetting) []DispatchSetting {
	list = slices.Clone(list)
	for i := range list {
		s := &list[i]
		s.Pooled = e.Holds(pooledShare)
		switch {
		case e.Holds(drawnBatches):
			s.Sizes = shared.AnySize
		case e.Holds(doubledBatches):
			s.Sizes = shared.DoubledSizes
		}
		s.Kept = func(policy string) time.Duration {
			switch {
			case policy == deferred && e.Holds(authorsDelays):
				return keptForAnswers
			case policy == clockwork && e.Holds(clockworkAllowance):
				return keptByClockwork
			case (policy == "nexus" || policy == nexusEight) && e.Holds(nexusAllowance):
				return keptByNexus
			}
			return 0
		}
		if e.Holds(authorsDelays) && s.Delay == (dispatch.Delay{}) {
			s.Delay = Delays()
		}
	}
	return list
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

// Network is a model with a batch latency of l(b) = Each·b + Fixed.
type Network struct {
	Name        string
	Each, Fixed float64 // milliseconds
	SLO         float64 // milliseconds
}

// Table is l(1), l(2), ... as far as a batch can run within the SLO, up to most.
func (n Network) Table(most int) []time.Duration {
	var table []time.Duration
	for b := 1; b <= most; b++ {
		l := n.Each*float64(b) + n.Fixed
		if b > 1 && l > n.SLO {
			break
		}
		table = append(table, millis(l))
	}
	return table
}

// Staggered is the largest batch that devices taking turns can hold together,
// l(b)·(1 + 1/devices) <= SLO, and the requests per second that they then do
// (Symphony, equation 2).
func (n Network) Staggered(devices int) (batch int, rate float64) {
	full := n.SLO / (1 + 1/float64(devices))
	batch = max(1, int(math.Floor((full-n.Fixed)/n.Each+1e-9)))
	return batch, 1000 * float64(devices*batch) / (n.Each*float64(batch) + n.Fixed)
}

func millis(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }

// table4 lists the two networks of Symphony's table 4.
func table4() []Network {
	return []Network{{"ResNet50", 1.053, 5.072, 25}, {"InceptionResNetV2", 5.090, 18.368, 70}}
}

// gtx1080Ti lists the networks of Symphony's table 5.
func gtx1080Ti() []Network {
	return []Network{
		{"NASNetMobile", 0.57, 14.348, 33},
		{"MobileNetV3Small", 0.335, 5.35, 20},
		{"DenseNet169", 1.271, 13.618, 37},
		{"DenseNet121", 1.061, 10.312, 29},
		{"DenseNet201", 1.733, 15.687, 45},
		{"EfficientNetV2B0", 1.006, 7.493, 23},
		{"MobileNetV3Large", 0.82, 5.256, 20},
		{"InceptionV3", 1.964, 8.771, 33},
		{"EfficientNetV2B1", 1.661, 7.247, 27},
		{"ResNet50V2", 1.409, 5.947, 23},
		{"ResNet152V2", 3.471, 13.049, 53},
		{"ResNet101V2", 2.438, 9.095, 37},
		{"InceptionResNetV2", 5.09, 18.368, 77},
		{"EfficientNetB0", 1.569, 5.586, 23},
		{"MobileNetV2", 1.18, 3.483, 20},
		{"ResNet101", 3.164, 9.065, 43},
		{"EfficientNetB1", 2.489, 6.674, 33},
		{"ResNet50", 2.05, 5.378, 27},
		{"EfficientNetV2B2", 2.254, 5.896, 29},
		{"VGG19", 3.059, 7.857, 40},
		{"ResNet152", 4.599, 11.212, 59},
		{"MobileNet", 1.009, 2.39, 20},
		{"VGG16", 2.734, 5.786, 33},
		{"EfficientNetB2", 3.446, 5.333, 38},
		{"EfficientNetV2B3", 4.072, 5.981, 44},
		{"NASNetLarge", 17.656, 18.952, 179},
		{"EfficientNetV2S", 8.463, 8.862, 85},
		{"EfficientNetB3", 5.924, 4.849, 57},
		{"EfficientNetV2L", 40.313, 28.208, 378},
		{"EfficientNetV2M", 22.619, 14.786, 210},
		{"EfficientNetB5", 23.435, 10.301, 208},
		{"Xception", 4.751, 2.046, 42},
		{"SSDMobilenet", 23.778, 9.729, 209},
		{"EfficientNetB4", 12.088, 4.412, 105},
		{"BERT", 7.008, 0.159, 56},
	}
}

// a100 lists the networks of Symphony's table 6.
func a100() []Network {
	return []Network{
		{"DenseNet121", 0.054, 10.546, 21},
		{"DenseNet201", 0.304, 14.345, 31},
		{"DenseNet169", 0.289, 13.365, 29},
		{"ResNet50V2", 0.135, 5.56, 20},
		{"EfficientNetB0", 0.115, 4.326, 20},
		{"ResNet101", 0.284, 8.266, 20},
		{"ResNet152", 0.39, 10.449, 24},
		{"ResNet101V2", 0.391, 8.219, 20},
		{"MobileNetV3Large", 0.196, 4.072, 20},
		{"EfficientNetB1", 0.291, 5.797, 20},
		{"ResNet50", 0.268, 5.172, 20},
		{"ResNet152V2", 0.589, 10.054, 24},
		{"MobileNetV2", 0.19, 2.892, 20},
		{"EfficientNetV2B3", 0.543, 7.596, 20},
		{"InceptionResNetV2", 1.112, 15.27, 39},
		{"EfficientNetV2B1", 0.443, 5.929, 20},
		{"NASNetMobile", 0.536, 6.86, 20},
		{"EfficientNetV2B0", 0.377, 4.272, 20},
		{"EfficientNetB2", 0.52, 5.333, 20},
		{"MobileNetV3Small", 0.315, 3.211, 20},
		{"InceptionV3", 0.913, 6.732, 20},
		{"MobileNet", 0.285, 1.901, 20},
		{"EfficientNetV2S", 1.454, 7.378, 26},
		{"EfficientNetV2B2", 0.901, 4.532, 20},
		{"VGG16", 0.66, 2.252, 20},
		{"EfficientNetB3", 1.239, 4.205, 20},
		{"Xception", 0.801, 2.638, 20},
		{"VGG19", 0.893, 2.181, 20},
		{"NASNetLarge", 3.464, 7.154, 42},
		{"EfficientNetV2M", 4.479, 6.861, 49},
		{"EfficientNetB4", 2.881, 4.103, 31},
		{"EfficientNetV2L", 7.52, 6.675, 73},
		{"EfficientNetB5", 6.121, 2.283, 53},
		{"SSDMobilenet", 19.448, 4.442, 164},
		{"EfficientNetB6", 9.754, 1.984, 82},
		{"EfficientNetB7", 16.339, 2.751, 136},
		{"BERT", 7.353, 0.222, 59},
	}
}
