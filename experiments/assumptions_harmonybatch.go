package experiments

// Assumptions of the figures of HarmonyBatch.
const (
	halfRates    = "half-rates"
	authorsCloud = "authors-cloud"
)

func groupingAssumptions() []Assumption {
	return []Assumption{
		{Name: halfRates, What: "eight applications share the requests of the trace's four, each at half its mean rate",
			Source:  "a guess: section V-C does not print the rates; VGG-19 then begins with seven functions on CPUs and one on a GPU, as printed",
			Systems: "all", Figures: []string{"harmonybatch/figure13"}, As: []string{AsPaper}},
		{Name: authorsCloud, What: "prices, billing, memory and maximum latencies are those of the authors' program",
			Source:  "the authors' program, which knows the memory of this network alone",
			Systems: "VGG-19", Figures: []string{"harmonybatch/figure7"}, As: []string{AsPaper, AsAuthors}},
		{Name: "python", What: "the policies are programs in Python on another machine",
			Source: "HarmonyBatch, section V", Systems: "all", Figures: []string{"harmonybatch/table4"}, Untried: true},
		{Name: "two-groups", What: "MBS+ divides the requests evenly into two groups, and its search stops early",
			Source: "HarmonyBatch, table I", Systems: "MBS+", Figures: []string{"harmonybatch/table1", "harmonybatch/traces"}, Untried: true},
		{Name: "chart", What: "the printed shares are read off a chart, for counts of a trace that is not drawn here",
			Source: "HarmonyBatch, figure 12", Systems: "BATCH", Figures: []string{"harmonybatch/traces"}, Untried: true},
	}
}
