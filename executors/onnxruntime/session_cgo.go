//go:build cgo

package onnxruntime

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// starting guards the library's environment, of which a process has one.
var starting sync.Mutex

func supported() error { return nil }

// start loads the library unless the process has one already.
func start(lib Library) error {
	starting.Lock()
	defer starting.Unlock()
	if ort.IsInitialized() {
		return nil
	}
	ort.SetSharedLibraryPath(lib.Path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return &LibraryError{Path: lib.Path, Reason: fmt.Sprintf("it could not be loaded (%v); %d.%d or later is needed; get one with: %s", err, leastMajor, leastMinor, Install)}
	}
	return nil
}

// session is a model in ONNX Runtime.
type session struct {
	ports pipelines.Signature
	out   []int // batch axes of the outputs
	run   *ort.DynamicAdvancedSession
	stop  *ort.RunOptions
}

// open loads a model file, of which pruned is what is to be computed; nil means all.
func open(lib Library, p Provider, path string, pruned []byte, libraries []string, l onnx.Layout, threads int) (network, error) {
	ports := l.Signature
	if err := start(lib); err != nil {
		return nil, err
	}
	o, err := settings(lib, p, ports, threads)
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	for _, path := range libraries {
		if err := register(lib, path, o); err != nil {
			return nil, invalid("", "the library %s cannot be used: %v", path, err)
		}
	}
	run, err := newSession(path, pruned, ports, o)
	if err != nil {
		return nil, invalid("", "%s cannot be loaded by ONNX Runtime %s: %v", path, lib.Version, err)
	}
	stop, err := ort.NewRunOptions()
	if err != nil {
		_ = run.Destroy()
		return nil, failed(err)
	}
	return &session{ports: ports, out: l.Out, run: run, stop: stop}, nil
}

// externalFolder is the setting for where the data are that a model keeps in other files.
const externalFolder = "session.model_external_initializers_file_folder_path"

func newSession(path string, pruned []byte, ports pipelines.Signature, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error) {
	if pruned == nil {
		return ort.NewDynamicAdvancedSession(path, names(ports.Inputs), names(ports.Outputs), o)
	}
	if err := o.AddSessionConfigEntry(externalFolder, filepath.Dir(path)); err != nil {
		return nil, err
	}
	return ort.NewDynamicAdvancedSessionWithONNXData(pruned, names(ports.Inputs), names(ports.Outputs), o)
}

func names(ports []pipelines.Port) []string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = p.Name
	}
	return all
}

func failed(err error) *wire.Error {
	return wire.Errorf(wire.CodeInternal, "", "onnxruntime: %v", err)
}

// settings are those of a session: a thread for every core of the device, and memory patterns only where
// every size is known, because one is kept for each size that was ever seen.
func settings(lib Library, p Provider, ports pipelines.Signature, threads int) (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, failed(err)
	}
	open := slices.ContainsFunc(ports.Inputs, func(p pipelines.Port) bool { return slices.Contains(p.Shape, -1) })
	err = errors.Join(
		o.SetIntraOpNumThreads(max(threads, 1)), o.SetInterOpNumThreads(1),
		o.SetExecutionMode(ort.ExecutionModeSequential),
		o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		o.SetLogSeverityLevel(ort.LoggingLevelError),
		o.SetMemPattern(!open),
	)
	if err != nil {
		_ = o.Destroy()
		return nil, failed(err)
	}
	if err := provide(o, p); err != nil {
		_ = o.Destroy()
		return nil, &LibraryError{Path: lib.Path, Reason: fmt.Sprintf("the execution provider %s cannot be used (%v); it needs a build for GPUs, and the CUDA libraries that its release names", p, err)}
	}
	return o, nil
}

// provide adds the provider, which takes the nodes that it can; the CPU takes
// the rest.
func provide(o *ort.SessionOptions, p Provider) error {
	switch p {
	case TensorRT:
		t, err := ort.NewTensorRTProviderOptions()
		if err != nil {
			return err
		}
		defer t.Destroy()
		if err := o.AppendExecutionProviderTensorRT(t); err != nil {
			return err
		}
		fallthrough // CUDA runs what TensorRT does not
	case CUDA:
		c, err := ort.NewCUDAProviderOptions()
		if err != nil {
			return err
		}
		defer c.Destroy()
		return o.AppendExecutionProviderCUDA(c)
	}
	return nil
}

func (s *session) close() error {
	return errors.Join(s.run.Destroy(), s.stop.Destroy())
}

// elementTypes are the library's numbers of the datatypes.
func elementTypes() map[string]int {
	return map[string]int{
		wire.FP32: ort.TensorElementDataTypeFloat, wire.FP64: ort.TensorElementDataTypeDouble,
		wire.FP16: ort.TensorElementDataTypeFloat16, wire.BF16: ort.TensorElementDataTypeBFloat16,
		wire.Int8: ort.TensorElementDataTypeInt8, wire.Int16: ort.TensorElementDataTypeInt16,
		wire.Int32: ort.TensorElementDataTypeInt32, wire.Int64: ort.TensorElementDataTypeInt64,
		wire.Uint8: ort.TensorElementDataTypeUint8, wire.Uint16: ort.TensorElementDataTypeUint16,
		wire.Uint32: ort.TensorElementDataTypeUint32, wire.Uint64: ort.TensorElementDataTypeUint64,
		wire.Bool: ort.TensorElementDataTypeBool, wire.Bytes: ort.TensorElementDataTypeString,
	}
}
