package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// A module that keeps state is exported as a network of one step: what it keeps is an output, and an
// input that is fed with it in the next step. Nothing in the file states which goes where but the
// names, for which exporters have these habits.

// nextNames are the outputs that an input's state may come back in, the likeliest first.
func nextNames(input string) []string {
	all := []string{input + "N", input + "n", input + "_out", input + "_n", input + "_next", input + "_new", "new_" + input, "next_" + input}
	if stem, ok := strings.CutSuffix(input, "_in"); ok {
		all = append(all, stem+"_out")
	}
	for _, past := range []string{"past_key_values.", "past.", "past_"} {
		if rest, ok := strings.CutPrefix(input, past); ok {
			all = append(all, "present."+rest, "present_"+rest)
		}
	}
	return all
}

// loops are the outputs that go back to inputs, by input: those that the module pairs, or else, by
// their names, those of inputs which it feeds with nothing.
func (d Declaration) loops(m pipelines.Module) map[string]*ValueInfo {
	if !m.State {
		return nil
	}
	all, taken := map[string]*ValueInfo{}, map[string]bool{}
	for _, in := range d.Inputs {
		if len(m.Loops) > 0 {
			if i := slices.IndexFunc(d.Outputs, func(v *ValueInfo) bool { return v.Name == m.Loops[in.Name] }); i >= 0 && d.Outputs[i].element() == in.element() {
				all[in.Name] = d.Outputs[i]
			}
			continue
		}
		if slices.ContainsFunc(m.Inputs, func(b pipelines.Binding) bool { return b.Name == in.Name }) {
			continue
		}
		for _, name := range nextNames(in.Name) {
			i := slices.IndexFunc(d.Outputs, func(v *ValueInfo) bool { return v.Name == name && v.element() == in.element() })
			if i >= 0 && !taken[name] {
				all[in.Name], taken[name] = d.Outputs[i], true
				break
			}
		}
	}
	return all
}

// stateAxis is the dimension of an input with state that is the batch: the one that the module
// declares, or the one that the file leaves open, or the first.
func (v *ValueInfo) stateAxis(m pipelines.Module) (int, error) {
	axis, err := v.axis(m, false)
	if _, said := m.BatchAxis[v.Name]; said || err != nil || axis < 0 {
		return axis, err
	}
	if open := slices.IndexFunc(v.dims(), func(n int64) bool { return n <= 0 }); open >= 0 {
		return open, nil
	}
	return axis, nil
}

// fed is how an input is fed: where its batch is, and what goes back to it.
func (v *ValueInfo) fed(m pipelines.Module, constant bool, back *ValueInfo) (axis int, p pipelines.Port, err error) {
	if back == nil {
		axis, err = v.axis(m, constant)
		return axis, v.port(axis), err
	}
	if axis, err = v.stateAxis(m); err == nil {
		p, err = v.looped(axis, back.Name)
	}
	return axis, p, err
}

// looped is the port of an input with state.
func (v *ValueInfo) looped(axis int, output string) (pipelines.Port, error) {
	p := v.port(axis)
	if slices.Contains(p.Shape, -1) {
		return p, fmt.Errorf("onnx: input %q keeps state, of a shape %v that varies beside the batch (dimension %d), so its size has no bound; export it with a fixed one, or name the dimension of the batch with batch_axis", v.Name, v.dims(), axis)
	}
	p.Loop = output
	return p, nil
}
