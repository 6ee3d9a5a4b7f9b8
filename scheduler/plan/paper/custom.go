package paper

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Custom is a policy of this package with rules that its paper may have meant.
type Custom struct {
	Base     string  // harpagon, piccolo or scrooge
	Multiple float64 // of the duration: the worst case of full machines; 0 for the policy's own
	Fill     bool    // dummy requests fill a machine first, as the Harpagon paper has them
}

// Options name the policy in place of the one that they had, with what they switch off
// and how they split.
func (c Custom) Options(o plan.Options) plan.Options {
	p := map[string]func() policy{plan.PolicyHarpagon: harpagon, plan.PolicyPiccolo: piccolo, plan.PolicyScrooge: scrooge}[c.Base]()
	if c.Multiple > 0 {
		p.rule = multiple{times: c.Multiple}
	}
	if c.Fill {
		p.module = harpagon().module
	}
	p.lacks = slices.Concat(p.lacks, o.Without)
	if o.Split != "" {
		p.split = o.Split
	}
	o.Policy = fmt.Sprintf("papers/%+v without %v, split %q", c, o.Without, o.Split)
	o.Without, o.Split = nil, ""
	o.Policies = map[string]plan.Policy{o.Policy: p}
	return o
}
