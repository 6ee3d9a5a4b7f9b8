package executors

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
)

// Signatures tells what modules consume and produce without loading them, by
// asking the engine that would run each (see EngineFor) where that is a Signer.
// A module with neither model nor function, of which nothing is known, has the
// empty signature.
func Signatures(engines ...Engine) func(pipelines.Module) (pipelines.Signature, error) {
	return func(m pipelines.Module) (pipelines.Signature, error) {
		if m.Model == "" && m.Function == "" {
			return pipelines.Signature{}, nil
		}
		name := EngineName(m)
		for _, e := range engines {
			if signer, ok := e.(Signer); ok && e.Name() == name {
				return signer.Signature(m)
			}
		}
		return pipelines.Signature{}, fmt.Errorf("executors: module %q: nothing here can tell the inputs and outputs of engine %q", m.Name, name)
	}
}
