package experiments

import (
	"math"
	"time"
)

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
