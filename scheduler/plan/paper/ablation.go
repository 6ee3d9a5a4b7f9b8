package paper

import "github.com/harpagon/harpagon/scheduler/plan"

// Ablation is a variant of a policy that a paper compares with the whole.
type Ablation struct {
	Name    string       // as the paper calls it
	Paper   string       // "Harpagon" or "Piccolo"
	What    string       // what is different
	Options plan.Options // with cost model proportional, as the papers charge
	Extra   float64      // average extra cost that the paper prints, as a share of the whole policy's
}

// Ablations lists the variants of both papers' evaluations (Harpagon, section
// IV-C; Piccolo, section IV-C), in their order, without the whole policies.
//
// Three of Piccolo's are Harpagon's to the digit: 89.6 % (nb), 14.0 % (np, Harp-nhe) and
// 23.2 % (nh, Harp-nhc). So "one type of hardware" (Picc-nh) is read as the cheapest.
func Ablations() []Ablation {
	return append(variants("Harpagon", "Harp-", plan.PolicyHarpagon, []variant{
		{"2d", "round robin, worst case 2d", []string{"tc"}, "", 0.796},
		{"dt", "each configuration collects by itself, d + b/t", []string{"dt"}, "", 0.441},
		{"1c", "one configuration a module", []string{"multi:one"}, "", 0.665},
		{"2c", "at most two configurations a module", []string{"multi"}, "", 0.030},
		{"nb", "the smallest batch only", []string{"batch"}, "", 0.896},
		{"nhc", "the cheapest hardware only", []string{"hetero"}, "", 0.232},
		{"nhe", "the dearest hardware only", []string{"hetero:dearest"}, "", 0.140},
		{"nd", "no dummy requests", []string{"dummy"}, "", 0.008},
		{"0re", "what is left of the budgets is not reassigned", []string{"reassign"}, "", 0.010},
		{"1re", "what is left of the budgets goes to one module", []string{"reassign:one"}, "", 0.006},
		{"tb", "split by throughput", nil, "throughput", 0.353},
		{"q0.01", "split in steps of 0.01 s", nil, "quantized:10ms", 0.012},
		{"q0.1", "split in steps of 0.1 s", nil, "quantized:100ms", 0.306},
		{"nnm", "no node merger", []string{"merge"}, "", 0.002},
		{"ncd", "no cost-direct", []string{"direct"}, "", 0.003},
	}), variants("Piccolo", "Picc-", plan.PolicyPiccolo, []variant{
		{"np", "one batch at a time on a machine", []string{"concurrency"}, "", 0.140},
		{"nb", "the smallest batch only", []string{"batch"}, "", 0.896},
		{"nh", "one type of hardware, the cheapest", []string{"hetero"}, "", 0.232},
		{"1bpc", "one configuration a module", []string{"multi:one"}, "", 0.144},
		{"2bpc", "at most two configurations a module", []string{"multi"}, "", 0.014},
		{"2d", "round robin, worst case 2d", []string{"tc"}, "", 0.185},
		{"dt", "each configuration collects by itself, d + b/t", []string{"dt"}, "", 0.176},
		{"tb", "split by throughput", nil, "throughput", 0.392},
		{"q0.01", "split in steps of 0.01 s", nil, "quantized:10ms", 0.008},
		{"q0.1", "split in steps of 0.1 s", nil, "quantized:100ms", 0.255},
		{"0re", "what is left of the budgets is not reassigned", []string{"reassign"}, "", 0.029},
		{"1re", "what is left of the budgets goes to one module", []string{"reassign:one"}, "", 0.005},
		{"nd", "no dummy requests", []string{"dummy"}, "", 0.003},
	})...)
}

type variant struct {
	name, what string
	without    []string
	split      string
	extra      float64
}

func variants(paper, prefix, policy string, list []variant) []Ablation {
	all := make([]Ablation, len(list))
	for i, v := range list {
		all[i] = Ablation{Name: prefix + v.name, Paper: paper, What: v.what, Extra: v.extra,
			Options: plan.Options{Policy: policy, CostModel: plan.CostProportional, Without: v.without, Split: v.split}}
	}
	return all
}
