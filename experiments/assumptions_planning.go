package experiments

import "slices"

// Assumptions of the figures of Harpagon and Piccolo.
const (
	denseRegime  = "dense-regime"
	sparseRegime = "sparse-regime"
	halfMore     = "dt-1.5d"
	bareSplits   = "bare-splits"
	bestSplit    = "best-split"
	tableBatches = "table-batches"
	noSingles    = "no-batch-of-one"
	moduleSpeeds = "speeds-by-module"
	unlike       = "unlike-modules"
	fillDummies  = "fill-dummies"
)

func planningAssumptions() []Assumption {
	harpagon := []string{"harpagon/figure5", "harpagon/figure6", "harpagon/figure7", "harpagon/figure9", "harpagon/figure10"}
	piccolo := []string{"piccolo/figure4", "piccolo/figure5", "piccolo/figure6", "piccolo/figure8", "piccolo/figure9", "piccolo/figure11"}
	both, held := slices.Concat(harpagon, piccolo), []string{AsPaper}
	return []Assumption{
		{Name: denseRegime, What: "400 to 1500 requests a second, and objectives of 1.5 to 3 times the fastest path",
			Source:  "a guess: neither is printed; worst cases under round robin of 1.9 times those of TC dispatch (Harpagon, figure 7) need modules of ten machines and more",
			Systems: "all", Figures: harpagon, As: held},
		{Name: sparseRegime, What: "15 to 60 requests a second",
			Source:  "a guess: rates are not printed; worst cases under round robin of 1.47 times those of TC dispatch (Piccolo, figure 8) mean modules of about three machines",
			Systems: "all", Figures: piccolo, As: held},
		{Name: moduleSpeeds, What: "the cheaper hardware is 0.5 to 0.85 times as fast, drawn for each module",
			Source:  "Harpagon, section II: the most cost-efficient hardware depends on the module; the range is a guess around 0.66, by the peak rates of P100 and V100",
			Systems: "all", Figures: both, As: held},
		{Name: halfMore, What: "full machines of one configuration answer within 1.5 d",
			Source:  "Harpagon, figure 7 (1.428 · 2/1.904 = 1.5) and Piccolo, figure 8 (1.113 · 2/1.470 = 1.5)",
			Systems: "Scrooge, Harp-dt, Picc-dt", As: held,
			Figures: []string{"harpagon/figure5", "harpagon/figure6", "harpagon/figure7", "harpagon/figure9", "piccolo/figure4", "piccolo/figure5", "piccolo/figure8"}},
		{Name: bareSplits, What: "other splits go without reassigner, node merger and cost-direct",
			Source:  "a guess: the papers replace the split, and do not say which of the steps around it remain (section IV-C of both)",
			Systems: "Harp-tb, Harp-q0.01, Harp-q0.1, Picc-tb, Picc-q0.01, Picc-q0.1", As: held,
			Figures: []string{"harpagon/figure6", "piccolo/figure5", "piccolo/figure9"}},
		{Name: bestSplit, What: "the optimum is the best split in steps of a millisecond, scheduled by the policy itself",
			Source:  "section IV-C of both: a split in steps is \"another kind of brute force\"; in Harpagon it beats the policy on 7.3 % of the workloads, and the optimum does on 8.5 %",
			Systems: "the optimum", Figures: []string{"harpagon/figure5", "piccolo/figure4"}, As: held},
		{Name: fillDummies, What: "dummy requests fill a machine (t - u) where that is cheaper than the printed b/(L - d) - u",
			Source:  "Harpagon, section III-C; in the example of Piccolo, section III-D, both give the same number",
			Systems: "Piccolo and its variants", Figures: piccolo, As: held},
		{Name: noSingles, What: "batches of 2, 4, 8 or 2, 8, 32, and none of one",
			Source: "Piccolo, table I", Systems: "all", Figures: piccolo, As: held},
		{Name: tableBatches, What: "batches of 2, 4, 8 or 2, 8, 32, and none of one",
			Source: "Harpagon, table I; but Algorithm 2 begins with batches of one", Systems: "all", Figures: harpagon},
		{Name: unlike, What: "durations of modules differ by up to 8 times",
			Source:  "a guess: the applications have detectors beside small classifiers; no durations but those of table I are printed",
			Systems: "all", Figures: both},
	}
}
