package placement

import (
	"fmt"
	"slices"
	"strings"
)

// Identity says when a module stays the same from one deployment to the next, so
// that waiting items of the one may run on executors of the other.
func Identity(d *Deployment, module string) string {
	if d.Function != nil {
		return "function" // requests wait for any generation of it
	}
	digest := ""
	for _, s := range d.Slots {
		if s.Module == module {
			digest = s.Model
			break
		}
	}
	m := d.Pipeline.Module(module)
	var inputs, constants []string
	for _, b := range m.Inputs {
		if b.IsConstant() {
			constants = append(constants, fmt.Sprintf("%s=%v", b.Name, b.Value))
			continue
		}
		inputs = append(inputs, b.Name)
	}
	slices.Sort(inputs)
	inputs = append(inputs, constants...)
	return fmt.Sprintf("%s|%s|%s|%s|%v|%v", digest, m.Function, m.Model, strings.Join(inputs, ","), m.Unbatched, m.BatchAxis)
}
