package pipelines

import (
	"fmt"
	"slices"
	"strings"
)

// Override is the planning of a service of that kind with the attributes of
// another, where these are given, in place of its own. Of a pool or function that
// is the policy only, and it where the kind has it. Another policy drops what
// belonged to the one before: without, split, reading and concurrency. Steps that
// are given for no policy are those of policy harpagon.
func (p Planning) Override(k Kind, by Planning) Planning {
	if slices.Contains(Policies(k), by.Policy) {
		if by.Policy != p.policy() {
			p = Planning{CostModel: p.CostModel, AllowUnsound: p.AllowUnsound}
		}
		p.Policy = by.Policy
	}
	if k != KindPipeline {
		return p
	}
	if by.Policy == "" && p.Policy == "" && (len(by.Without) > 0 || by.Split != "" || by.Reading != "") {
		p.Policy = policyHarpagon
	}
	set := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	set(&p.CostModel, by.CostModel)
	set(&p.Split, by.Split)
	set(&p.Reading, by.Reading)
	if len(by.Without) > 0 {
		p.Without = by.Without
	}
	p.Concurrency = p.Concurrency || by.Concurrency
	p.AllowUnsound = p.AllowUnsound || by.AllowUnsound
	return p
}

// CheckOverride finds what is wrong with attributes that are to go before plan
// blocks, whatever services there are.
func CheckOverride(by Planning) []Fault {
	kinds := []Kind{KindPipeline, KindPool, KindFunction}
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return by.Policy == "" || slices.Contains(Policies(k), by.Policy) }); i > 0 {
		by.Policy = "" // of another kind: the rest is for pipelines that are planned otherwise
	}
	return Planning{Policy: by.Policy}.Override(KindPipeline, by).Faults(KindPipeline)
}

// Override lets attributes that are given go before the plan blocks of all
// services, as Planning.Override does. It reports a policy that no service has,
// attributes that are for no service of the document, and what then is wrong with
// the planning of some service.
func (d *Document) Override(by Planning) []Fault {
	if text := d.unfitPolicy(by.Policy); text != "" {
		return []Fault{{Attribute: "policy", Summary: "Unknown policy", Detail: text}}
	}
	var all []Fault
	if len(d.Pipelines) == 0 {
		for _, one := range by.attributes() {
			if one.given && one.name != "policy" {
				all = append(all, Fault{Attribute: one.name, Summary: "Not for these services", Detail: one.name + " is for pipelines, and none is declared."})
			}
		}
	}
	d.eachPlanning(func(k Kind, name string, p *Planning) {
		*p = p.Override(k, by)
		for _, one := range p.Faults(k) {
			one.Detail = fmt.Sprintf("%s %q: %s", k, name, one.Detail)
			all = append(all, one)
		}
	})
	return all
}

// eachPlanning calls do for all services.
func (d *Document) eachPlanning(do func(k Kind, name string, p *Planning)) {
	for i := range d.Pipelines {
		do(KindPipeline, d.Pipelines[i].Name, &d.Pipelines[i].Plan)
	}
	for i := range d.Pools {
		do(KindPool, d.Pools[i].Name, &d.Pools[i].Plan)
	}
	for i := range d.Functions {
		do(KindFunction, d.Functions[i].Name, &d.Functions[i].Plan)
	}
}

// unfitPolicy says what is wrong with a policy for the services together: each
// kind has policies of its own, and one of them must have this.
func (d *Document) unfitPolicy(policy string) string {
	if policy == "" {
		return ""
	}
	declared := map[Kind]bool{}
	d.eachPlanning(func(k Kind, _ string, _ *Planning) { declared[k] = true })
	var choices []string
	other := ""
	for _, k := range []Kind{KindPipeline, KindPool, KindFunction} {
		has := slices.Contains(Policies(k), policy)
		switch {
		case declared[k] && has:
			return ""
		case declared[k]:
			choices = append(choices, fmt.Sprintf("for %ss there is %s", k, strings.Join(Policies(k), ", ")))
		case has:
			other = string(k)
		}
	}
	if other != "" {
		return fmt.Sprintf("policy %q plans %ss, and none is declared; %s", policy, other, strings.Join(choices, "; "))
	}
	return fmt.Sprintf("there is no policy %q; %s", policy, strings.Join(choices, "; "))
}
