package executors

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Check compares tensors with the ports that they belong to: as many, each of
// the port's datatype, rank and dimensions (-1 takes any), and with as much
// data as the shape says. A port without a datatype takes any tensor.
func Check(ports []pipelines.Port, tensors []wire.Tensor) error {
	if len(tensors) != len(ports) {
		return fmt.Errorf("%d tensors where %d are expected", len(tensors), len(ports))
	}
	for j := range ports {
		if err := checkTensor(&ports[j], &tensors[j]); err != nil {
			return err
		}
	}
	return nil
}

func checkTensor(p *pipelines.Port, t *wire.Tensor) error {
	if p.Datatype == "" {
		return nil
	}
	if t.Datatype != p.Datatype {
		return fmt.Errorf("%q is %s where %s is expected", p.Name, orNothing(t.Datatype), p.Datatype)
	}
	fits := len(t.Shape) == len(p.Shape)
	for k := 0; fits && k < len(t.Shape); k++ {
		fits = p.Shape[k] < 0 || t.Shape[k] == p.Shape[k]
	}
	if !fits {
		return fmt.Errorf("%q has shape %v where %v is expected", p.Name, t.Shape, p.Shape)
	}
	if err := t.Validate(); err != nil {
		return fmt.Errorf("%q: %w", p.Name, err)
	}
	return nil
}

// checkAnswers holds an engine to its own signature, in number only: shapes
// are its own business.
func checkAnswers(sig pipelines.Signature, answers [][]wire.Tensor, items int) error {
	if len(answers) != items {
		return fmt.Errorf("the engine answered %d of %d requests", len(answers), items)
	}
	for _, outputs := range answers {
		if len(outputs) != len(sig.Outputs) {
			return fmt.Errorf("the engine gave %d outputs where its signature has %d", len(outputs), len(sig.Outputs))
		}
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
