package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// Batch takes a request apart that brings several: every input has exactly one
// dimension more than its port declares, the same first one of n, and fits the
// port without it. Part i has row i of every input. The answers are put together
// by Join.
//
// The number of dimensions decides, and a port declares it also where they vary:
// a tensor with as many as the port is never a batch. It is nil for a request that
// is none, or is wrong, which Arrange says. It is an error where some inputs have a
// batch dimension and others have not, unless it is 1, which Arrange takes off, or
// where they differ, or n is 0.
func Batch(ports []pipelines.Port, given []NamedTensor) ([][]NamedTensor, *Error) {
	plain, first := -1, -1
	for i, t := range given {
		at := slices.IndexFunc(ports, func(p pipelines.Port) bool { return p.Name == t.Name })
		switch {
		case at < 0:
			return nil, nil
		case ShapeFits(ports[at].Shape, t.Shape):
			plain = i
		case len(t.Shape) != len(ports[at].Shape)+1 || !ShapeFits(ports[at].Shape, t.Shape[1:]):
			return nil, nil
		case first < 0:
			first = i
		case t.Shape[0] != given[first].Shape[0]:
			return nil, Errorf(CodeInvalid, "", "input %q has a batch of %d and input %q one of %d; the inputs of a batch have the same first dimension",
				given[first].Name, given[first].Shape[0], t.Name, t.Shape[0])
		}
	}
	if first < 0 {
		return nil, nil
	}
	n := given[first].Shape[0]
	switch {
	case plain >= 0 && n == 1:
		return nil, nil
	case plain >= 0:
		return nil, Errorf(CodeInvalid, "", "input %q has a batch of %d and input %q has none, with shape %v as declared; give every input of a batch its own first dimension of %d",
			given[first].Name, n, given[plain].Name, given[plain].Shape, n)
	case n < 1:
		return nil, Errorf(CodeInvalid, "", "a batch of no requests: the first dimension of input %q is %d", given[first].Name, n)
	}
	return apart(given, int(n))
}

func apart(given []NamedTensor, n int) ([][]NamedTensor, *Error) {
	var parts [][]NamedTensor
	for j, t := range given {
		err := t.Validate()
		var rows []Tensor
		if err == nil {
			rows, err = Rows(t.Tensor)
		}
		if err != nil {
			return nil, Errorf(CodeInvalid, "", "input %q: %s", t.Name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		if parts == nil {
			parts = make([][]NamedTensor, n)
		}
		for i := range parts {
			if parts[i] == nil {
				parts[i] = make([]NamedTensor, len(given))
			}
			parts[i][j] = NamedTensor{Name: t.Name, Tensor: rows[i]}
		}
	}
	return parts, nil
}

// Join puts the answers to the parts of a batch together, in order: every output
// has one dimension more, of as many as there are answers. What is of one request,
// such as its stages, is that of the answer that took longest. Outputs that differ
// in shape from one answer to another cannot be joined.
func Join(answers []*InferResponse) (*InferResponse, *Error) {
	last := answers[0]
	for _, a := range answers {
		if a.Elapsed > last.Elapsed {
			last = a
		}
	}
	joined := *last
	joined.Outputs = make([]NamedTensor, len(last.Outputs))
	for j := range joined.Outputs {
		name := last.Outputs[j].Name
		rows := make([]Tensor, len(answers))
		for i, a := range answers {
			if len(a.Outputs) != len(last.Outputs) || a.Outputs[j].Name != name {
				return nil, Errorf(CodeInternal, "", "the answers to the requests of a batch have different outputs; send it again")
			}
			rows[i] = a.Outputs[j].Tensor
		}
		t, err := Stack(rows)
		if err != nil {
			return nil, Errorf(CodeInvalid, "", "output %q of a batch cannot be joined, because the answers differ (%s); send the requests one by one",
				name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		joined.Outputs[j] = NamedTensor{Name: name, Tensor: t}
	}
	return &joined, nil
}

// OfBatch says in an error which request of a batch it is about, counted from 1.
func OfBatch(err *Error, i, n int) *Error {
	e := *err
	e.Reason = fmt.Sprintf("request %d of %d: %s", i+1, n, e.Reason)
	return &e
}
