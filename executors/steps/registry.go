package steps

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/pipelines"
)

// Registry knows functions by name. Its zero value is empty; it may be used
// from several goroutines.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Function
}

// Builtin returns a new registry with the built-in functions.
func Builtin() *Registry {
	return &Registry{byName: map[string]Function{
		"threshold_boxes": ThresholdBoxes(),
		"crop":            Crop(),
		"resize":          Resize(),
		"argmax_label":    ArgmaxLabel(),
		"identity":        Identity(),
		"letterbox":       Letterbox(),
		"text_boxes":      TextBoxes(),
		"text_lines":      TextLines(),
		"turn_quads":      TurnQuads(),
		"ctc_text":        CTCText(),
		"decode_image":    DecodeImage(),
		"normalize":       Normalize(),
		"softmax":         Softmax(),
		"top_k":           TopK(),
		"concat":          Concat(),
	}}
}

// Register adds a function. It fails when the name is empty or taken, or when
// there is nothing to prepare.
func (r *Registry) Register(name string, f Function) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return fmt.Errorf("executors/steps: a function needs a name")
	case f.Prepare == nil:
		return fmt.Errorf("executors/steps: function %q has no Prepare", name)
	}
	if _, taken := r.byName[name]; taken {
		return fmt.Errorf("executors/steps: function %q is registered already; choose another name", name)
	}
	if r.byName == nil {
		r.byName = make(map[string]Function)
	}
	r.byName[name] = f
	return nil
}

// Names lists the functions in alphabetical order.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byName))
}

// Lookup finds a function by its name.
func (r *Registry) Lookup(name string) (Function, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f, ok := r.byName[name]
	return f, ok
}

// Signature is what a module with a function consumes and produces. The error
// names an unknown function or parameter, with a suggestion where there is one.
func (r *Registry) Signature(m pipelines.Module) (pipelines.Signature, error) {
	step, err := r.prepare(m)
	return step.Signature, err
}

func (r *Registry) prepare(m pipelines.Module) (Step, error) {
	f, ok := r.Lookup(m.Function)
	if !ok {
		return Step{}, fmt.Errorf("executors/steps: module %q: there is no function %q%s", m.Name, m.Function, hint(m.Function, r.Names()))
	}
	p := NewParameters(m.Parameters)
	step, err := f.Prepare(p)
	if wrong := p.Err(); wrong != nil {
		err = wrong
	}
	if err == nil && step.Call == nil {
		err = fmt.Errorf("it has nothing to call")
	}
	if err != nil {
		return Step{}, fmt.Errorf("executors/steps: module %q: function %q: %w", m.Name, m.Function, err)
	}
	return step, nil
}
