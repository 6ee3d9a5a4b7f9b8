package functions

import "github.com/harpagon/harpagon/pipelines"

// models are the four of the paper's Table III, by the coefficients that its
// authors released with their program (conf/model.json), to six digits. The
// share of BERT's time on GPU functions that their program takes for CPU time
// is not in the paper's equations, and not here.
func models() map[string]pipelines.FunctionProfile {
	type k = pipelines.Curve
	return map[string]pipelines.FunctionProfile{
		"VGG-19": vgg19(),
		"BERT": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 1.98691, Beta: 0.298263, Gamma: 0.123642}, Max: k{Alpha: 1.80273, Beta: 0.442076, Gamma: 0.169411}},
				{Batch: 2, Avg: k{Alpha: 3.00984, Beta: 0.356766, Gamma: 0.192034}, Max: k{Alpha: 2.86393, Beta: 0.461025, Gamma: 0.260424}},
				{Batch: 3, Avg: k{Alpha: 3.67084, Beta: 0.39572, Gamma: 0.257587}, Max: k{Alpha: 3.63918, Beta: 0.488974, Gamma: 0.338585}},
				{Batch: 4, Avg: k{Alpha: 4.55862, Beta: 0.408975, Gamma: 0.321899}, Max: k{Alpha: 5.09401, Beta: 0.447957, Gamma: 0.422202}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.00102927, Xi2: 0.00157641, Slice: 0.002, WholeGB: 24},
		},
		"GPT-2": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 14.8637, Beta: 0.38518, Gamma: 0.708232}, Max: k{Alpha: 18.0637, Beta: 0.376591, Gamma: 0.868924}},
				{Batch: 2, Avg: k{Alpha: 36.3689, Beta: 0.330048, Gamma: 1.21814}, Max: k{Alpha: 55.0401, Beta: 0.295548, Gamma: 1.56531}},
				{Batch: 3, Avg: k{Alpha: 33.1826, Beta: 0.360603, Gamma: 1.23594}, Max: k{Alpha: 46.9028, Beta: 0.328031, Gamma: 1.5702}},
				{Batch: 4, Avg: k{Alpha: 35.0735, Beta: 0.36335, Gamma: 1.49228}, Max: k{Alpha: 48.3286, Beta: 0.33315, Gamma: 1.80592}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.00102143, Xi2: 0.200695, Slice: 0.002, WholeGB: 24, Thresholds: []int{27}},
		},
		"VideoMAE": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 4.71065, Beta: 2.43353, Gamma: 0.812329}, Max: k{Alpha: 5.67767, Beta: 2.11338, Gamma: 1.09775}},
				{Batch: 2, Avg: k{Alpha: 7.9996, Beta: 2.6169, Gamma: 1.59239}, Max: k{Alpha: 5.8491, Beta: 3.32663, Gamma: 2.01376}},
				{Batch: 3, Avg: k{Alpha: 10.2055, Beta: 2.99118, Gamma: 2.07311}, Max: k{Alpha: 8.14902, Beta: 3.63437, Gamma: 2.57616}},
				{Batch: 4, Avg: k{Alpha: 14.6988, Beta: 2.93184, Gamma: 2.60637}, Max: k{Alpha: 21.0079, Beta: 2.17621, Gamma: 3.5933}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.0326338, Xi2: -0.00045, Slice: 0.002, WholeGB: 24, Thresholds: []int{0, 4, 6, 12, 14}},
		},
	}
}
