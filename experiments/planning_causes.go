package experiments

// explain says why averages are far from the printed ones, each by a measurement that
// another figure shows.
func explain(out *Result, paper string) {
	const (
		average = "average cost"
		noOne   = "in none of 48 regimes is the average as high (planning/regimes), so no choice of what the papers leave open explains it. "
		left    = "whether a choice of rates, objectives, batch sets or durations explains it shows planning/regimes: averages run "
	)
	if paper == "Piccolo" {
		out.Explain("Picc-nb, Picc-nh, Picc-1bpc, Picc-2d, Picc-dt, Picc-tb", "", left+"from 1 to 7 for nb, to 11 for nh, 2.1 for 1bpc, 1.4 for 2d, 1.8 for dt and 2.6 for tb there, on both sides of the printed ones. Here the cheaper kind is 0.4 to 0.7 times as fast, and batches of 8 and 32 have 3.3 to 4 times the throughput of a batch of one.")
		out.Explain("Picc-q0.1", "", noOne+"Where 0.1 s is long against an objective, half of the workloads have no plan by such steps at all; where it is short, little is lost.")
		out.Explain("Picc-q0.01", "", "the quantized split tries all divisions in its steps, and the split by latency-cost efficiency one after another; ours loses at most 7 % by that, and is dearer in small amounts on many workloads, which the average tells.")
		out.Explain("Picc-nd, Picc-2bpc, Picc-0re, Picc-1re, Picc-np", "", "the share of workloads on which a step changes anything depends on how well rates fill the machines; in every one of 48 regimes dummy requests save at least 1.4 % (planning/regimes), so that here they are added wherever the rest of a rate does not fill a machine.")
		return
	}
	out.Explain("Harp-2d", "", noOne+"Figure 7 says how much longer worst cases are: 1.66 times here and 1.9 in the paper, which needs modules of ten machines and more.")
	out.Explain("Harp-dt", "", noOne+"1.43 in figure 7 of the paper means that two machines run each configuration; here the first configuration of a module has most of them, so that collecting by configuration is nearly collecting from all.")
	out.Explain("Harp-1c, Harp-nb, Harp-nhc, Harp-nhe, Harp-tb", "", left+"from 1 to 2.4 for 1c, 8.1 for nb, 11 for nhc, 1.25 for nhe and 1.5 for tb there, on both sides of the printed ones. Here a batch of 8 or 32 has 3.3 to 4 times the throughput of a batch of one, the cheaper kind is 0.4 to 0.7 times as fast, and the modules of a pipeline are alike.")
	out.Explain("Harp-2c", "", noOne+"With three or four batch sizes on two kinds a third configuration saves nearly nothing; it is in the plans of a tenth of the workloads.")
	out.Explain("Harp-q0.1", "", noOne+"Where 0.1 s is long against an objective, half of the workloads have no plan by such steps at all; where it is short, little is lost.")
	out.Explain("Harp-q0.01", "", "the quantized split tries all divisions in its steps, and the split by latency-cost efficiency one after another; the average differs by 1 %.")
	out.Explain("Harp-nd", "", "the paper adds dummy requests on 15.8 % of its workloads; here they are added wherever the rest of a rate does not fill a machine, and in every one of 48 regimes they save at least 0.9 % (planning/regimes).")
	out.Explain("Harp-0re, Harp-1re, Harp-nnm, Harp-ncd", "", "largest ratios and shares are those of single workloads; the averages are within 1 % of the printed ones.")
}

// explainSystems does so for the four systems and the optimum.
func explainSystems(out *Result, paper string) {
	if paper == "Piccolo" {
		out.Explain("the four systems", "", "all four dispatch round robin and most have one configuration a module. These two steps cost more here than in the paper: 1.39 for 1.19 and 1.57 for 1.14 (figure 5).")
	} else {
		out.Explain("the four systems", "", "all four dispatch round robin, and that costs less here than in the paper: 1.38 for 1.80 (figure 6).")
	}
	out.Explain(paper, "as cheap as the optimum", "costs are compared to one part in a million, and differ little: how many plans are within 1 and 5 % of the optimum stands in the table.")
	out.Explain(paper, "largest cost over the optimum's", "it is that of one workload.")
}

// explainLatencies does so for worst cases.
func explainLatencies(out *Result) {
	out.Explain("", "", "worst cases are d + b/w under TC dispatch: 2d is the further from it the more machines a module has, and collecting by configuration the more configurations have machines of their own. Here modules have about five machines, most of them of the first configuration.")
}
