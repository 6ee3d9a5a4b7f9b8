package experiments

import (
	"cmp"
	"slices"
	"strings"
)

// All lists the figures by ID. Figures of one list share
// what they measure.
func All() []Figure {
	all := slices.Concat(planningFigures(), dispatchingFigures(), coresFigures(), overloadFigures(), groupingFigures(), poolFigures(), simulatingFigures())
	known, _ := Known() // a test reads it, too
	for i, f := range all {
		all[i] = explained(f, known)
	}
	slices.SortStableFunc(all, func(a, b Figure) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Find lists the figures with the ID, or with the ID before a slash:
// "symphony/table4", or "symphony" for all of its.
func Find(all []Figure, id string) []Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f Figure) bool {
		return f.ID != id && !strings.HasPrefix(f.ID, id+"/")
	})
}

// Printed is a table or figure of a paper's evaluation that is not made under its own
// name: another figure shows it, too, or there is a reason why it cannot be made.
type Printed struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	In    string `json:"in,omitempty"`  // ID of the figure that shows it
	Why   string `json:"why,omitempty"` // it is not made; empty where In is not
}

// Elsewhere lists them by paper, in the order of the text.
func Elsewhere() []Printed {
	const (
		input = "is what others are made from, not a result"
		words = "compares in words what systems can do; nothing is measured"
		notes = "lists symbols"
		draws = "draws how the system is built or computes; it has no numbers"
	)
	return []Printed{
		{ID: "harpagon/table1", Title: "Profiles of modules", Why: input + ": harpagon/table2 plans with it"},
		{ID: "harpagon/table3", Title: "Serving systems compared", Why: words},
		{ID: "harpagon/figure1", Title: "Requests of one batch wait unlike long", Why: draws},
		{ID: "harpagon/figure3", Title: "Overview", Why: draws},
		{ID: "harpagon/figure8", Title: "Costs and throughputs with one and two configurations a module", In: "harpagon/figure6"},
		{ID: "harpagon/figure11", Title: "Throughput of three modules, split by cost and by throughput", Why: "neither the application nor its rate and objective are named; harpagon/figure6 has the costs of that split"},
		{ID: "harpagon/figure12", Title: "Costs where the objective is divided in steps", In: "harpagon/figure6"},
		{ID: "piccolo/table1", Title: "Profiles of modules", Why: input},
		{ID: "piccolo/table3", Title: "Inference systems compared", Why: words},
		{ID: "piccolo/figure1", Title: "Dispatch one by one and in batches", In: "harpagon/figure2"},
		{ID: "piccolo/figure2", Title: "Overview", Why: draws},
		{ID: "piccolo/figure3", Title: "Sixteen requests to three machines", In: "harpagon/figure4"},
		{ID: "piccolo/figure7", Title: "Costs with one and two configurations a module", In: "piccolo/figure5"},
		{ID: "piccolo/figure10", Title: "Costs where the objective is divided in steps", In: "piccolo/figure5"},
		{ID: "kairos/table1", Title: "Related work compared", Why: words},
		{ID: "kairos/table2", Title: "Parameters of the optimiser", Why: notes},
		{ID: "kairos/table3", Title: "Models and objectives", Why: input},
		{ID: "kairos/table4", Title: "Kinds of instances and prices", Why: input},
		{ID: "kairos/figure4", Title: "Overview", Why: draws},
		{ID: "kairos/figure5", Title: "Four queries on two instances", Why: "draws an example whose latencies are not printed; kairos/goodput plays the rule that it shows"},
		{ID: "kairos/figure6", Title: "What the upper bound is computed from", Why: draws},
		{ID: "kairos/figure7", Title: "Two cases of the upper bound", Why: "draws an example without numbers; kairos/figure13 has the bounds of all configurations"},
		{ID: "kairos/figure3", Title: "Configurations by several distributors", In: "kairos/figure1"},
		{ID: "kairos/figure8", Title: "Kairos over one kind of instance", In: "kairos/goodput"},
		{ID: "kairos/figure9", Title: "Kairos and Kairos+ beside other systems", In: "kairos/goodput"},
		{ID: "kairos/figure10", Title: "Evaluations of the searches", In: "kairos/figure11"},
		{ID: "harmonybatch/table2", Title: "Notation", Why: notes},
		{ID: "harmonybatch/table3", Title: "Networks, frameworks and datasets", Why: input},
		{ID: "harmonybatch/figure3", Title: "Rates of applications, what functions cost (figures 1 to 3, 6 and 9)", Why: "motivates and explains, by measurements of a cloud's functions; harmonybatch/figure7, harmonybatch/drawn and harmonybatch/model plan by the coefficients that came of them"},
		{ID: "harmonybatch/figure10", Title: "Errors of predicted latencies", Why: "measures functions of a cloud, and the measurements are not published"},
		{ID: "harmonybatch/figure11", Title: "Costs of four networks", In: "harmonybatch/traces"},
		{ID: "harmonybatch/figure12", Title: "Requests that miss their objective", In: "harmonybatch/traces"},
		{ID: "harmonybatch/figure14", Title: "Functions before and after merging", In: "harmonybatch/figure13"},
		{ID: "symphony/table1", Title: "Profiles of some networks", Why: input + ": rows of table 5, most cut to two digits"},
		{ID: "symphony/table3", Title: "Settings of the comparison with starting at once", In: "symphony/figure4"},
		{ID: "symphony/table5", Title: "Profiles of networks on a 1080 Ti", In: "symphony/networks"},
		{ID: "symphony/table6", Title: "Profiles of networks on an A100", In: "symphony/networks"},
		{ID: "symphony/figure2", Title: "Architecture", Why: draws},
		{ID: "symphony/figure3", Title: "Delays in queues, coordinated and not", In: "symphony/table4"},
		{ID: "symphony/figure5", Title: "What a stable scheduler does", In: "symphony/figure10"},
		{ID: "symphony/figure7", Title: "Objectives, popularity and bursts", In: "symphony/bursts"},
		{ID: "symphony/figure9", Title: "Times in queues", In: "symphony/figure8"},
		{ID: "symphony/figure11", Title: "Requests per second of the scheduler; goodput over the number of devices", In: "symphony/devices"},
		{ID: "symphony/figure12", Title: "Tail latency of RDMA and TCP", Why: "measures network hardware: InfiniBand of 56 Gbit/s and Ethernet of 40 Gbit/s"},
		{ID: "symphony/figure16", Title: "The algorithm in pseudocode", Why: "is text: policy deferred follows it"},
	}
}

// Others is a table of what is not made under its own name: those that another figure shows
// together, and those that are not made for the same reason.
func Others(list []Printed) Grid {
	g := Grid{Header: []string{"where it is, or why it is not made", "figures"}, Prose: 1}
	for _, p := range list {
		where := cmp.Or(p.Why, "in "+p.In)
		k := slices.IndexFunc(g.Rows, func(row []string) bool { return row[0] == where })
		if k < 0 {
			g.Rows = append(g.Rows, []string{where, p.ID})
		} else {
			g.Rows[k][1] += ", " + p.ID
		}
	}
	return g
}

// FindElsewhere lists those with the ID, or with the ID before a slash.
func FindElsewhere(id string) []Printed {
	var found []Printed
	for _, p := range Elsewhere() {
		if p.ID == id || strings.HasPrefix(p.ID, id+"/") {
			found = append(found, p)
		}
	}
	return found
}
