package executors

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

// EngineFor returns the engine that runs the module: ForceEngine where set,
// else the engine that the module names, else "function" for a function,
// "remote" for an address, "process" for a command,
// "onnxruntime" for a model where that engine can run here and "gorgonia"
// where not, and "emulated" where there is only a profile.
//
// A module that names "onnxruntime" gets "gorgonia" too where the former cannot
// run, if the latter can run the model. Notice receives a line for either exchange.
//
// It is an error, too, when the host may not run the module; nothing that the module names may
// be read then.
func (h *Host) EngineFor(m pipelines.Module) (Engine, error) {
	if err := h.Confine.Check(m); err != nil {
		return nil, err
	}
	return h.engineFor(m)
}

// engineFor is EngineFor of a module that may be run here, and whose files may have been
// placed.
func (h *Host) engineFor(m pipelines.Module) (Engine, error) {
	e, err := h.choose(m)
	return fixing(e, err, m)
}

func (h *Host) choose(m pipelines.Module) (Engine, error) {
	if h.ForceEngine != "" {
		return h.engine(h.ForceEngine, m.Name)
	}
	name := EngineName(m)
	open := name == EngineNetwork && (m.Engine == "" || m.Engine == pipelines.EngineAuto)
	if !open && name != EngineFast {
		return h.engine(name, m.Name)
	}
	fast, missing := h.fast()
	switch {
	case fast != nil && missing == nil:
		return fast, nil
	case fast == nil: // this host was never given it
		return h.engine(name, m.Name)
	case !open && h.unfit(m) != nil:
		return nil, fmt.Errorf("executors: module %q needs engine %q, which cannot run on host %q: %w; and the engine %q, which needs nothing, cannot take its place: %w",
			m.Name, name, h.Name, missing, EngineNetwork, h.unfit(m))
	}
	h.notice(m.Name, fmt.Sprintf("module %s is served by %s, slower, because %s cannot run on host %s: %v", m.Name, EngineNetwork, EngineFast, h.Name, missing))
	return h.engine(EngineNetwork, m.Name)
}

// EngineName is the name of the engine that a module declares; where it leaves a network's
// engine open, that of the one that runs everywhere.
func EngineName(m pipelines.Module) string { return m.EngineName() }

// fast is the engine "onnxruntime" where the host has it, with the reason why
// it cannot run.
func (h *Host) fast() (Engine, error) {
	for _, e := range h.Engines {
		if e.Name() == EngineFast {
			return e, available(e)
		}
	}
	return nil, nil
}

func available(e Engine) error {
	if c, ok := e.(Checker); ok {
		return c.Available()
	}
	return nil
}

// unfit reports why the engine that needs nothing cannot run a model.
func (h *Host) unfit(m pipelines.Module) error {
	if _, err := h.engine(EngineNetwork, m.Name); err != nil {
		return err
	}
	if err := BatchFirst(m); err != nil {
		return err
	}
	if len(m.Libraries) > 0 {
		return errLibraries
	}
	if m.State {
		return errState
	}
	m, release, err := h.place(context.Background(), m)
	if err != nil {
		return err
	}
	defer release()
	_, err = onnx.Load(m.Model)
	return err
}

// notice reports each module once.
func (h *Host) notice(module, line string) {
	h.mu.Lock()
	known := h.noticed[module]
	if h.noticed == nil {
		h.noticed = make(map[string]bool)
	}
	h.noticed[module] = true
	h.mu.Unlock()
	if !known {
		h.tell("%s", line)
	}
}

func (h *Host) tell(format string, args ...any) {
	if h.Notice != nil {
		h.Notice(fmt.Sprintf(format, args...))
	}
}

// Signatures reports what modules consume and produce without loading them. It takes them from
// the engine that would run each (see EngineFor) where that is a Signer, and otherwise from the
// module's ONNX file: what it computes for the engine with few operators, what it declares for
// any other. Of a model that leaves the engine open it is the same whether "onnxruntime" can
// run on this machine or not, if it is among the engines; where it cannot, and no other can
// take its place, that is Signature.Unchecked. The empty signature means that nothing is known:
// of a module with neither model nor function, and of one that is only planned, whose model is
// an empty file beside a profile.
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
			return pipelines.Signature{}, fmt.Errorf("executors: module %q: the function %q is not registered here; pass in the engine %q", m.Name, m.Function, name)
		}
		switch e, known := pipelines.EngineNamed(name); {
		case !known, e.Takes == pipelines.SourceAddress, e.Takes == pipelines.SourceCommand: // it is known when it is loaded
			return pipelines.Signature{}, nil
		}
		switch {
		case name != EngineNetwork:
			return declaredSignature(m)
		case m.Engine == EngineNetwork:
			return signatureOfFile(m)
		}
		return openSignature(m, engines)
	}
}

// openSignature is that of a model for whichever engine there is where it runs.
func openSignature(m pipelines.Module, engines []Engine) (pipelines.Signature, error) {
	h := Host{Engines: engines}
	fast, missing := h.fast()
	if fast == nil { // it will never run here
		return signatureOfFile(m)
	}
	sig, err := declaredSignature(m)
	if err != nil {
		return sig, err
	}
	unknown := func(p pipelines.Port) bool { return p.Datatype == "" }
	if missing == nil && !slices.ContainsFunc(sig.Outputs, unknown) {
		return sig, nil
	}
	computed, err := signatureOfFile(m)
	switch {
	case err == nil && len(computed.Inputs) == len(sig.Inputs) && len(computed.Outputs) == len(sig.Outputs):
		for i, p := range sig.Outputs {
			if unknown(p) {
				sig.Outputs[i] = computed.Outputs[i]
			}
		}
	case missing != nil && (err != nil || len(computed.Inputs) != len(sig.Inputs)):
		sig.Unchecked = fmt.Sprintf("%s will run this; this machine cannot check it: %v", EngineFast, missing)
	}
	return sig, nil
}

// declaredSignature is what a model file declares, whatever its operators.
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

// onlyPlanned is true of an empty model file beside a profile.
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
