package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// VariantCombination is one variant for every module that has some.
type VariantCombination struct {
	Variants map[string]string // by module; empty is the module's own network
	Accuracy float64           // of the pipeline
}

// VariantAim states which combination is best.
type VariantAim int

// The aims; see the package.
const (
	LeastCost VariantAim = iota
	MostAccurate
)

// tolerance is the difference of accuracies, or of costs in proportion, that counts as
// rounding.
const tolerance = 1e-9

// variantCombinations are all in which the pipeline can serve, the most accurate first; of equal
// ones the one with more of the modules' own networks.
func variantCombinations(p *pipelines.Pipeline) []VariantCombination {
	all := []VariantCombination{{Variants: map[string]string{}, Accuracy: 1}}
	for i := range p.Modules {
		m := &p.Modules[i]
		if len(m.Variants) == 0 {
			for k := range all {
				all[k].Accuracy *= m.Right()
			}
			continue
		}
		var next []VariantCombination
		for _, one := range all {
			for _, v := range m.Choices() {
				chosen := maps.Clone(one.Variants)
				chosen[m.Name] = v.Name
				next = append(next, VariantCombination{chosen, one.Accuracy * v.Accuracy})
			}
		}
		all = next
	}
	slices.SortStableFunc(all, func(a, b VariantCombination) int {
		if d := b.Accuracy - a.Accuracy; d > tolerance || d < -tolerance {
			return cmp.Compare(b.Accuracy, a.Accuracy)
		}
		return cmp.Compare(a.others(), b.others())
	})
	return all
}

// others counts the modules that do not run their own network.
func (c VariantCombination) others() (n int) {
	for _, name := range c.Variants {
		if name != "" {
			n++
		}
	}
	return n
}

// Describe names the combination: "detect=small, label=own".
func (c VariantCombination) Describe() string {
	var parts []string
	for _, module := range slices.Sorted(maps.Keys(c.Variants)) {
		parts = append(parts, module+"="+cmp.Or(c.Variants[module], ownVariant))
	}
	return strings.Join(parts, ", ")
}

// ownVariant is how a module's own network is called among its variants.
const ownVariant = "own"

// ChooseVariants calls costOf for combinations (false where there is no plan) and returns
// the best, or false where none that is accurate enough has a plan. It calls it as seldom
// as possible: with MostAccurate for none that is less accurate than one with a plan. Once
// ended returns true the search ends, and cut is true.
func ChooseVariants(p *pipelines.Pipeline, aim VariantAim, ended func() bool, costOf func(VariantCombination) (float64, bool)) (best VariantCombination, found, cut bool) {
	least := 0.0
	for i, c := range variantCombinations(p) {
		switch {
		case c.Accuracy < p.Accuracy*(1-tolerance):
			return best, found, false
		case found && aim == MostAccurate && c.Accuracy < best.Accuracy-tolerance:
			return best, found, false
		case i > 0 && ended():
			return best, found, true
		}
		cost, ok := costOf(c)
		if ok && (!found || cost < least*(1-tolerance)) {
			best, least, found = c, cost, true
		}
	}
	return best, found, false
}

// ServedVariant is who serves the requests of a module as planned.
type ServedVariant struct {
	Module   string  `json:"module"`
	Variant  string  `json:"variant"`  // ownVariant is the module's own network
	Accuracy float64 `json:"accuracy"` // of the network
	Share    float64 `json:"share"`    // of the module's requests
}

// ServedVariants is who serves the modules of a pipeline that have variants, as they are chosen.
func ServedVariants(p *pipelines.Pipeline) (all []ServedVariant) {
	for i := range p.Modules {
		if m := &p.Modules[i]; len(m.Variants) > 0 {
			all = append(all, ServedVariant{Module: m.Name, Variant: cmp.Or(m.Variant, ownVariant), Accuracy: m.Right(), Share: 1})
		}
	}
	return all
}

// AsServed is the pipeline as a plan has it.
func AsServed(p pipelines.Pipeline, served []ServedVariant) pipelines.Pipeline {
	chosen := map[string]string{}
	for _, s := range served {
		if chosen[s.Module] = s.Variant; s.Variant == ownVariant {
			chosen[s.Module] = ""
		}
	}
	return p.As(chosen)
}

// VariantName is who serves in short: "classify=small".
func VariantName(served []ServedVariant) string {
	parts := make([]string, len(served))
	for i, s := range served {
		parts[i] = s.Module + "=" + s.Variant
	}
	return strings.Join(parts, ", ")
}

// DescribeVariants returns in one line the accuracy of a plan and its variants; empty where
// no module has variants.
func DescribeVariants(accuracy float64, served []ServedVariant) string {
	if len(served) == 0 {
		return ""
	}
	var parts []string
	for _, s := range served {
		parts = append(parts, fmt.Sprintf("%s of %s by %s (%s)", quantity.Percent(s.Share), s.Module, s.Variant, quantity.Number(s.Accuracy)))
	}
	return fmt.Sprintf("accuracy %s: %s\n", quantity.Number(accuracy), strings.Join(parts, ", "))
}
