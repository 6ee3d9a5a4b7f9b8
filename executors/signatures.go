package executors

import (
	"fmt"
	"os"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

// Signatures tells what modules consume and produce without loading them. It
// asks the engine that would run each (see EngineFor) where that is a Signer,
// and otherwise reads the module's ONNX file: what it computes for the engine
// that knows few operators, what it declares for any other. Which one runs a
// model that leaves it open is told by a Checker among the engines. The empty
// signature says that
// nothing is known: of a module with neither model nor function, and of one
// that is only planned, whose model is an empty file beside a profile.
func Signatures(engines ...Engine) pipelines.SignatureFunc {
	return func(m pipelines.Module) (pipelines.Signature, error) {
		if m.Function == "" && len(m.Command) == 0 && (m.Model == "" || onlyPlanned(m)) {
			return pipelines.Signature{}, nil
		}
		if pipelines.IsFetched(m.Model) { // it is known once it has been fetched
			return pipelines.Signature{}, nil
		}
		name := EngineName(m)
		for _, e := range engines {
			if signer, ok := e.(Signer); ok && e.Name() == name {
				return signer.Signature(m)
			}
		}
		if m.Function != "" {
			return pipelines.Signature{}, fmt.Errorf("executors: module %q: nothing here knows the function %q; pass in the engine %q", m.Name, m.Function, name)
		}
		if name == EngineRemote || name == EngineProcess { // it is known when it is loaded
			return pipelines.Signature{}, nil
		}
		if name != EngineNetwork || m.Engine != EngineNetwork && fastIsHere(engines) {
			return declaredSignature(m)
		}
		return signatureOfFile(m)
	}
}

// fastIsHere is true when the engines include "onnxruntime" and it can run.
func fastIsHere(engines []Engine) bool {
	h := Host{Engines: engines}
	e, missing := h.fast()
	return e != nil && missing == nil
}

// declaredSignature is what a model says of itself, whatever its operators.
func declaredSignature(m pipelines.Module) (pipelines.Signature, error) {
	d, err := onnx.ReadDeclaration(m.Model)
	if err == nil {
		var l onnx.Layout
		if l, err = d.Layout(m); err == nil {
			return l.Signature, nil
		}
	}
	return pipelines.Signature{}, fmt.Errorf("executors: module %q: %w", m.Name, err)
}

// onlyPlanned is true of an empty model file where a profile says the rest.
func onlyPlanned(m pipelines.Module) bool {
	info, err := os.Stat(m.Model)
	return err == nil && info.Size() == 0 && len(m.Profile.Points) > 0
}

func signatureOfFile(m pipelines.Module) (pipelines.Signature, error) {
	model, err := onnx.ReadFile(m.Model)
	if err != nil {
		return pipelines.Signature{}, fmt.Errorf("executors: module %q: %w", m.Name, err)
	}
	sig, err := onnx.Signature(model)
	if err == nil && len(m.BatchAxis) > 0 {
		err = errBatchAxis
	}
	if err != nil {
		return pipelines.Signature{}, fmt.Errorf("executors: module %q: %s: %w", m.Name, m.Model, err)
	}
	if m.Unbatched {
		sig = Single(sig)
	}
	return sig, nil
}
