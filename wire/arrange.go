package wire

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// Arrange puts the inputs of a request into the order of the ports that it asks,
// and checks them: every port once, of its datatype and shape, with data that
// agree. A leading batch dimension of 1 that the port does not have is taken
// off. A port without datatype or shape takes any. to names what is asked.
func Arrange(ports []pipelines.Port, given []NamedTensor, to string) ([]Tensor, *Error) {
	inputs := make([]Tensor, len(ports))
	seen := make([]bool, len(ports))
	for _, t := range given {
		i := slices.IndexFunc(ports, func(p pipelines.Port) bool { return p.Name == t.Name })
		if i < 0 {
			return nil, Errorf(CodeInvalid, "", "there is no input %q; %s takes %s", t.Name, to, portNames(ports))
		}
		if seen[i] {
			return nil, Errorf(CodeInvalid, "", "input %q is given twice", t.Name)
		}
		var err *Error
		if inputs[i], err = fit(&ports[i], t.Tensor); err != nil {
			return nil, err
		}
		seen[i] = true
	}
	if i := slices.Index(seen, false); i >= 0 {
		p := &ports[i]
		return nil, Errorf(CodeInvalid, "", "input %q is missing; it is %s %v", p.Name, p.Datatype, p.Shape)
	}
	return inputs, nil
}

// fit checks a tensor against its port.
func fit(p *pipelines.Port, t Tensor) (Tensor, *Error) {
	if p.Datatype != "" && t.Datatype != p.Datatype {
		return t, Errorf(CodeInvalid, "", "input %q is %s where %s is declared", p.Name, t.Datatype, p.Datatype)
	}
	if !ShapeFits(p.Shape, t.Shape) {
		if len(t.Shape) != len(p.Shape)+1 || t.Shape[0] != 1 || !ShapeFits(p.Shape, t.Shape[1:]) {
			return t, Errorf(CodeInvalid, "", "input %q has shape %v where %v is declared", p.Name, t.Shape, p.Shape)
		}
		t.Shape = t.Shape[1:]
	}
	if err := t.Validate(); err != nil {
		return t, Errorf(CodeInvalid, "", "input %q: %s", p.Name, strings.TrimPrefix(err.Error(), "wire: "))
	}
	return t, nil
}

// ShapeFits says whether a tensor's shape is the one that a port declares,
// where a dimension below zero stands for any.
func ShapeFits(want, have []int64) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if have[i] < 0 || (want[i] >= 0 && have[i] != want[i]) {
			return false
		}
	}
	return true
}

func portNames(ports []pipelines.Port) string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = p.Name
	}
	return strings.Join(all, ", ")
}
