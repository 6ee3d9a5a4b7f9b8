package experiments

// Assumptions of the figures of Symphony.
const (
	clockworkAllowance = "clockwork-allowance"
	authorsDelays      = "authors-delays"
	pooledShare        = "pooled-share"
	realSystems        = "real-systems"
	drawnBatches       = "drawn-batches"
	doubledBatches     = "doubled-batches"
	nexusAllowance     = "nexus-allowance"
	fourEach           = "four-devices-each"
)

func dispatchingAssumptions() []Assumption {
	compared := []string{"symphony/table4", "symphony/figure6", "symphony/figure8"}
	return []Assumption{
		{Name: clockworkAllowance, What: "requests are due 5 ms before their deadline",
			Source:  "Clockwork's program, whose deadline is arrival + SLO - 5 ms",
			Systems: "Clockwork", Figures: compared, As: []string{AsPaper, AsAuthors}},
		{Name: drawnBatches, What: "of the possible sizes of a batch any is taken, with equal chance",
			Source:  "Symphony, section 5.2.2: \"the probability of Clockwork choosing a specific batch size is uniform\"",
			Systems: "Clockwork", Figures: compared, As: []string{AsPaper}},
		{Name: doubledBatches, What: "batches of 1, 2, 4, 8 and 16",
			Source:  "Clockwork's program; Symphony, section 5, says that any size was made possible",
			Systems: "Clockwork", Figures: compared},
		{Name: nexusAllowance, What: "2 ms of every objective are kept for the network",
			Source:  "Nexus's program, whose largest batch has 2·l(b) + 2 ms <= SLO",
			Systems: "Nexus", Figures: compared, As: []string{AsPaper, AsAuthors}},
		{Name: fourEach, What: "there are four devices for each network, not two",
			Source:  "Symphony, table 3, whose settings have one to four; which those of figure 4 a to c are is not printed",
			Systems: "all", Figures: []string{"symphony/figure4"}, As: []string{AsPaper}},
		{Name: authorsDelays, What: "100 µs a message and 50 µs a request; Symphony itself keeps 2 ms for the answer",
			Source:  "Symphony's program, its defaults",
			Systems: "all", Figures: append([]string{"symphony/figure4"}, compared...), As: []string{AsPaper, AsAuthors}},
		{Name: pooledShare, What: "99 % of all requests are in time, not of each network's",
			Source:  "Symphony's program, which counts 1 - successes/total",
			Systems: "all", Figures: []string{"symphony/figure4", "symphony/figure6"}, As: []string{AsAuthors}},
		{Name: realSystems, What: "Clockwork and Nexus run as systems of their own, and lose what their profiles do not foresee",
			Source: "Symphony, section 5", Systems: "Clockwork, Nexus", Figures: compared, Untried: true},
	}
}
