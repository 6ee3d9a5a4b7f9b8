package pipelines

import "strings"

// gathers checks that there is something to gather, and where to.
func (v *validator) gathers(p *Pipeline, path string) {
	scopes := v.g.Scopes()
	for i := range p.Modules {
		m := &p.Modules[i]
		if m.Gather == "" || m.Gather != GatherAround && !v.g.Has(m.Gather) {
			continue
		}
		at := path + ".module." + m.Name + ".gather"
		common, deepest := sharedScope(m, scopes)
		to := scopes[m.Gather]
		switch {
		case deepest == 0:
			v.errorf(at, "Nothing to gather", "No module above %q has a fanout, so it runs once per request already. Take gather out, or give a module above it a fanout.", m.Name)
		case m.Gather == GatherAround:
		case !v.g.above(m.Gather, i):
			v.errorf(at, "Gathered to a module beside", "%q is not among the modules that feed %q, so nothing that %q gets has come of its items. Name one of those.", m.Gather, m.Name, m.Name)
		case sharedBy(common, to) < len(to):
			v.errorf(at, "Gathered too deep", "Not all inputs of %q have come of an item of %q: they share %s. Name a module of that scope, or leave gather out.", m.Name, m.Gather, scopeText(common))
		case deepest == len(to):
			v.errorf(at, "Nothing to gather", "%q gets its inputs once for each item of %q already. Take gather out, or name a module before the fanout.", m.Name, m.Gather)
		}
	}
}

// joins checks that what a module joins of conditional branches has come under one condition.
func (v *validator) joins(p *Pipeline, path string) {
	scopes := v.g.Scopes()
	for i := range p.Modules {
		m := &p.Modules[i]
		common := len(CommonScopeOf(m, scopes))
		for _, in := range m.Inputs {
			if in.IsMerge() && !v.eitherOr(scopes[in.From.Module], scopes[in.Or.Module], common) {
				v.errorf(path+".module."+m.Name+".inputs."+in.Name, "Not two branches of one condition", "%q takes %s or %s, of which a request may have both or none. Let one of the two run by when and the other by else of the same tensor, or take them in two inputs.", m.Name, in.From, in.Or)
			}
		}
		var first *Module
		for _, r := range m.joined() {
			scope := scopes[r.Module]
			if len(scope) <= common || !v.g.Module(scope[common]).IsConditional() {
				continue
			}
			branch := v.g.Module(scope[common])
			if first == nil {
				first = branch
			}
			if branch.When != first.When {
				v.errorf(path+".module."+m.Name+".inputs", "Join over different conditions", "%q joins %s and %s, which run by %s and by %s, so that it may get both or none of them. Give them one condition, with when and else, or join them one after the other.",
					m.Name, first.Name, branch.Name, first.When, branch.When)
				break
			}
		}
	}
}

// joined are the tensors that the module takes together with others: all but those of which it
// takes one or the other.
func (m *Module) joined() (refs []Ref) {
	for _, b := range m.Inputs {
		if !b.IsMerge() {
			refs = append(refs, b.Sources()...)
		}
	}
	if m.IsConditional() {
		refs = append(refs, m.When)
	}
	return refs
}

// eitherOr reports whether in each item of their common scope, of that depth, there is something of
// one scope or of the other.
func (v *validator) eitherOr(a, b []string, common int) bool {
	if len(a) <= common || len(b) <= common {
		return false
	}
	one, other := v.g.Module(a[common]), v.g.Module(b[common])
	return one.IsConditional() && one.When == other.When && one.Else != other.Else
}

func scopeText(scope []string) string {
	if len(scope) == 0 {
		return "the request only"
	}
	return "the items of " + strings.Join(scope, ", ")
}
