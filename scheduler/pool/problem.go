package pool

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
)

// Problem is one pool with the hardware that can be rented.
type Problem struct {
	Pool     pipelines.Pool
	Hardware []pipelines.Hardware
}

// check finds what stands in the way of any plan; validation reports the same
// at its place in the files.
func (m *market) check(p pipelines.Pool) error {
	switch {
	case m.slo <= 0:
		return fmt.Errorf("the SLO must be above zero")
	case len(m.sizes) == 0 && len(p.Sizes) == 0 && m.base >= 0 && len(m.kinds[m.base].latency) > 0:
		return fmt.Errorf("the base %q serves no measured size within the SLO of %v", p.Base, m.slo)
	case len(m.sizes) == 0:
		return fmt.Errorf("no query size has a weight above zero: name a file of sizes with sizes = \"FILE.csv\"")
	case m.base < 0:
		return fmt.Errorf("the base %q is not among the kinds of hardware of the pool", p.Base)
	case m.kinds[m.base].price > m.budget:
		return fmt.Errorf("a budget of %g an hour does not pay for one base instance (%s, %g an hour)", m.budget, p.Base, m.kinds[m.base].price)
	}
	for _, k := range m.kinds {
		if len(k.latency) == 0 {
			return fmt.Errorf("the profile has no point on %q", k.name)
		}
	}
	if n := m.kinds[m.base].serves; n < len(m.sizes) {
		return fmt.Errorf("the base %q takes %v for a query of size %d, longer than the SLO of %v", p.Base, m.kinds[m.base].latency.At(m.sizes[n]), m.sizes[n], m.slo)
	}
	return nil
}
