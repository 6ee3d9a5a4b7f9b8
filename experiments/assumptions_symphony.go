package experiments

// Assumptions of the figures of Symphony.
const (
	clockworkAllowance = "clockwork-allowance"
	authorsDelays      = "authors-delays"
	pooledShare        = "pooled-share"
	realSystems        = "real-systems"
)

func dispatchingAssumptions() []Assumption {
	compared := []string{"symphony/table4", "symphony/figure6", "symphony/figure8"}
	return []Assumption{
		{Name: clockworkAllowance, What: "requests are due 5 ms before their deadline",
			Source:  "Clockwork's program, whose deadline is arrival + SLO - 5 ms",
			Systems: "Clockwork", Figures: compared, As: []string{AsPaper, AsAuthors}},
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
