package experiments

func poolAssumptions() []Assumption {
	return []Assumption{
		{Name: "guided-walk", What: "configurations are met on a walk that seeks good ones, not at random",
			Source: "Kairos, section 4 (simulated annealing)", Systems: "Ribbon", Figures: []string{"kairos/figure2"}, Untried: true},
	}
}
