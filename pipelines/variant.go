package pipelines

import "slices"

// Variant is another network that can stand in for a module's own: it takes and gives
// the same tensors, computes them in another time, and is right more or less often.
type Variant struct {
	Name     string   // empty of the module's own network
	Model    string   `json:",omitempty"` // as in Module, like the next three
	Engine   string   `json:",omitempty"`
	Command  []string `json:",omitempty"`
	Files    []string `json:",omitempty"`
	Accuracy float64  // share of its answers that are right, 0 to 1

	ProfileFile string `json:",omitempty"` // path as declared
	Profile     Profile
	Content     []File `json:",omitempty"` // see Module.Content
}

// current is the network that the module runs now.
func (m *Module) current() Variant {
	return Variant{
		Name: m.Variant, Model: m.Model, Engine: m.Engine, Command: m.Command, Files: m.Files, Accuracy: m.Accuracy,
		ProfileFile: m.ProfileFile, Profile: m.Profile, Content: m.Content,
	}
}

// Choices are the networks that can serve the module, the one that it runs now first.
func (m *Module) Choices() []Variant { return append([]Variant{m.current()}, m.Variants...) }

// As is the module with the variant of that name as what it runs; empty is its own
// network. What it ran before takes the variant's place in Variants, so that it can be
// chosen again. A name that the module does not have changes nothing.
func (m Module) As(name string) Module {
	i := slices.IndexFunc(m.Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 || name == m.Variant {
		return m
	}
	v, before := m.Variants[i], m.current()
	m.Variants = slices.Clone(m.Variants)
	m.Variants[i] = before
	m.Variant, m.Model, m.Engine, m.Command, m.Files, m.Accuracy = v.Name, v.Model, v.Engine, v.Command, v.Files, v.Accuracy
	m.ProfileFile, m.Profile, m.Content = v.ProfileFile, v.Profile, v.Content
	return m
}

// As is the pipeline with variants chosen, by module; modules that are not named stay
// as they are.
func (p Pipeline) As(choice map[string]string) Pipeline {
	p.Modules = slices.Clone(p.Modules)
	for i, m := range p.Modules {
		if name, chosen := choice[m.Name]; chosen {
			p.Modules[i] = m.As(name)
		}
	}
	return p
}

// Varied reports whether some module has variants.
func (p *Pipeline) Varied() bool {
	return slices.ContainsFunc(p.Modules, func(m Module) bool { return len(m.Variants) > 0 })
}

// Degrades reports that the devices for the pipeline are fixed (each kind of hardware that
// it may use has a count) and its modules have variants: as they are paid for anyway,
// they serve with the highest accuracy for which they suffice, and with less rather than
// drop requests.
func (p *Pipeline) Degrades(hardware []Hardware) bool {
	return p.Varied() && !slices.ContainsFunc(hardware, func(h Hardware) bool {
		return h.Count == 0 && slices.ContainsFunc(p.Modules, func(m Module) bool { return m.mayUse(h.Name) })
	})
}

// mayUse reports whether one of the module's networks has a profile on the hardware.
func (m *Module) mayUse(hardware string) bool {
	return (len(m.Hardware) == 0 || slices.Contains(m.Hardware, hardware)) && slices.ContainsFunc(m.Choices(), func(v Variant) bool {
		return slices.ContainsFunc(v.Profile.Points, func(at Point) bool { return at.Hardware == hardware })
	})
}

// Right is the accuracy of the pipeline as its modules are now: the product of theirs,
// for an answer is right when all that it went through were (the pipeline accuracy score
// of IPA, arXiv 2308.12871). A module that declares none counts as always right.
func (p *Pipeline) Right() float64 {
	product := 1.0
	for i := range p.Modules {
		product *= p.Modules[i].Right()
	}
	return product
}

// Right is the module's accuracy; 1 where none is declared.
func (m *Module) Right() float64 {
	if m.Accuracy == 0 && len(m.Variants) == 0 {
		return 1
	}
	return m.Accuracy
}
