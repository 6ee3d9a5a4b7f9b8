package onnxruntime

import (
	"fmt"
	"os"
	"path/filepath"
)

// Provider is where a session computes.
type Provider string

// The providers.
const (
	CPU      Provider = "cpu"
	CUDA     Provider = "cuda"
	TensorRT Provider = "tensorrt"
)

// InstallGPU says how to get a library that computes on GPUs.
const InstallGPU = "take the onnxruntime-linux-x64-gpu archive of ONNX Runtime's releases with the CUDA and cuDNN that it names, and set " + variable + " to its libonnxruntime.so"

// Providers lists them.
func Providers() []Provider { return []Provider{CPU, CUDA, TensorRT} }

// Engine is the name of the provider's engine: what a declaration says.
func (p Provider) Engine() string {
	if p == CPU || p == "" {
		return Name
	}
	return Name + "-" + string(p)
}

// ProviderOf is the provider of an engine's name; false for other engines.
func ProviderOf(engine string) (Provider, bool) {
	for _, p := range Providers() {
		if p.Engine() == engine {
			return p, true
		}
	}
	return "", false
}

// library is the file that ONNX Runtime loads beside its own for the provider.
func (p Provider) library() string {
	if p == CPU || p == "" {
		return ""
	}
	return "libonnxruntime_providers_" + string(p) + ".so"
}

// check says why the library has no such provider; nil when it has.
func (p Provider) check(lib Library) error {
	file := p.library()
	if file == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(lib.Path), file)); err != nil {
		return &LibraryError{Path: lib.Path, Reason: fmt.Sprintf(
			"it computes on the CPU only, for %s is not beside it; %s", file, InstallGPU)}
	}
	return nil
}
