package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/workflows/control"
)

// writeFunctions sets what was measured beside the plan.
func writeFunctions(to io.Writer, all []control.Status) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "function\tphase\tgeneration\tpolicy\trate/s\tper million\tgroups\tmeasured/s\tper million\tbatch\tviolations")
	for _, s := range all {
		groups, perRequest, measured := 0, 0.0, "-\t-\t-\t-"
		if s.Plan != nil {
			groups, perRequest = len(s.Plan.Function.Groups), s.Plan.Function.CostPerRequest
		}
		if m := s.Calls(); m != nil {
			t := m.Total()
			measured = fmt.Sprintf("%s\t%s\t%.1f\t%s", quantity.Number(m.Offered()), quantity.Money(1e6*t.CostPerRequest()), t.MeanBatch(), quantity.Percent(m.Violations()))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.Phase, s.Generation, policyOf(s),
			quantity.Number(s.Rate), quantity.Money(1e6*perRequest), groups, measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if m := s.Calls(); m != nil {
			fmt.Fprintf(to, "\n%s\n%s", s.Name, m.Describe(*s.Plan.Function))
		}
		if s.Failure != nil {
			fmt.Fprintf(to, "\n%s: %s", s.Name, s.Failure.Describe())
		}
	}
	return nil
}
