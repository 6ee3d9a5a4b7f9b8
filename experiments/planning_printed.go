package experiments

// printed is what a paper prints of a variant beside its average: the largest ratio of
// costs, and the shares of workloads on which the variant is as cheap as the whole
// policy, and cheaper. Zero where it prints none.
type printed struct {
	worst, equal, cheaper float64
}

// ofVariants are the figures in the text of both evaluations (section IV-C of either
// paper), by the name of the variant.
func ofVariants() map[string]printed {
	return map[string]printed{
		"Harp-1c":    {worst: 2.786},
		"Harp-2c":    {worst: 1.290, equal: 67.6},
		"Harp-nd":    {equal: 84.2}, // dummy requests are added for 15.8 %
		"Harp-0re":   {worst: 1.146},
		"Harp-1re":   {worst: 1.125},
		"Harp-q0.01": {worst: 1.244, equal: 69.4, cheaper: 7.3},
		"Harp-q0.1":  {worst: 1.655},
		"Harp-nnm":   {equal: 96.02},
		"Harp-ncd":   {equal: 94.93},
		"Picc-1bpc":  {worst: 1.616, equal: 17.95},
		"Picc-2bpc":  {worst: 1.253, equal: 56.26},
		"Picc-q0.01": {worst: 1.111, cheaper: 1},
		"Picc-q0.1":  {worst: 1.500},
		"Picc-nd":    {worst: 1.059, equal: 81.15},
	}
}

// extremes are what the papers print of the four systems that they compare with: the
// least and the largest average ratio, and the least and the largest worst one (Harpagon,
// section IV-B; Piccolo, section IV-B). Which system has which is only in the plots.
type extremes struct{ leastMean, mostMean, leastWorst, mostWorst float64 }

func ofSystems() map[string]extremes {
	return map[string]extremes{
		"Harpagon": {1.493, 2.372, 1.913, 3.200},
		"Piccolo":  {1.044, 1.443, 1.314, 2.018},
	}
}

// asOptimal is the share of workloads on which the policy is as cheap as an exhaustive
// search, and the largest ratio of its cost to the search's, as the papers print them.
func asOptimal(paper string) (share, worst float64) {
	if paper == "Piccolo" {
		return 97.13, 1.0769
	}
	return 91.5, 1.121
}
