package experiments

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Settings of the comparison of holding back and starting at once (Symphony, section
// 4.3, table 3).
var (
	homogeneous = []string{"DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"}
	homeModels  = []int{8, 16, 24, 32, 48, 64}
	homeDevices = []float64{1, 1.5, 2, 2.5, 3, 3.5, 4} // of each model
	homeSLOs    = []float64{20, 25, 30, 40, 50}
	homeShapes  = []float64{0.1, 0.2, 0.3, 0.5, 0.7, 1}
)

// homeDrawn is how many of the 7,560 combinations part d of figure 4 draws.
const homeDrawn = 60

// microbenchmark lists the settings of figure 4: a mixture of all networks (a), a
// network that batching helps much (b) and one that it does not (c), and cases drawn
// from all combinations (d).
func microbenchmark(quick bool) []DispatchSetting {
	var list []DispatchSetting
	for _, shape := range homeShapes {
		list = append(list, DispatchSetting{Group: "a", Name: fmt.Sprintf("35 networks, 64 devices, gamma %g", shape), Models: gtx1080Ti(), Devices: zooDevices, Shape: shape})
	}
	for _, of := range []struct{ part, name string }{{"b", "DenseNet121"}, {"c", "BERT"}} {
		for _, slo := range []float64{30, 50} {
			for _, shape := range []float64{0.1, 0.3, 1} {
				list = append(list, home(of.part, of.name, 16, 2, slo, shape))
			}
		}
	}
	rng := rand.New(rand.NewPCG(4, 3))
	for range homeDrawn {
		list = append(list, home("d", pick(rng, homogeneous), pick(rng, homeModels), pick(rng, homeDevices), pick(rng, homeSLOs), pick(rng, homeShapes)))
	}
	list = slices.DeleteFunc(list, func(s DispatchSetting) bool { return s.Models[0].Each+s.Models[0].Fixed > s.Models[0].SLO })
	if quick {
		return []DispatchSetting{list[5], list[6], list[len(list)-1]}
	}
	return list
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// home is a setting of so many models alike, with devices for each.
func home(part, name string, models int, each, slo, shape float64) DispatchSetting {
	all := gtx1080Ti()
	one := all[slices.IndexFunc(all, func(n Network) bool { return n.Name == name })]
	one.SLO = slo
	return DispatchSetting{
		Group: part, Name: fmt.Sprintf("%d %s, %g devices each, SLO %g ms, gamma %g", models, name, each, slo, shape),
		Models: slices.Repeat([]Network{one}, models), Devices: int(each * float64(models)), Shape: shape,
	}
}
