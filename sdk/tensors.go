package sdk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Types of the protocol that programs meet.
type (
	// Tensor is a named array of one datatype.
	Tensor = wire.Tensor
	// Stage is one module's part in a request's time.
	Stage = wire.Stage
	// Metadata is what a service takes and gives.
	Metadata = wire.Metadata
	// StreamKind is what streams of one kind send, as Metadata.Streams lists them.
	StreamKind = wire.Kind
)

// Inputs are a request's tensors by the name of the pipeline's input.
type Inputs map[string]Tensor

// list orders the inputs by name, so that equal requests are equal on the wire.
func (in Inputs) list() []wire.NamedTensor {
	out := make([]wire.NamedTensor, 0, len(in))
	for name, t := range in {
		out = append(out, wire.NamedTensor{Name: name, Tensor: t})
	}
	slices.SortFunc(out, func(a, b wire.NamedTensor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Float32 makes an FP32 tensor of the shape, or a vector without one.
func Float32(data []float32, shape ...int64) Tensor { return wire.FromFloat32(data, shape...) }

// Float64 makes an FP64 tensor of the shape, or a vector without one.
func Float64(data []float64, shape ...int64) Tensor { return wire.FromFloat64(data, shape...) }

// Float16 makes an FP16 tensor of the shape, or a vector without one. Every
// element is rounded to the nearest of IEEE 754 binary16.
func Float16(data []float32, shape ...int64) Tensor { return wire.FromFloat16(data, shape...) }

// BFloat16 makes a BF16 tensor of the shape, or a vector without one. Every
// element is rounded to the nearest of bfloat16.
func BFloat16(data []float32, shape ...int64) Tensor { return wire.FromBFloat16(data, shape...) }

// Bool makes a BOOL tensor of the shape, or a vector without one.
func Bool(data []bool, shape ...int64) Tensor { return wire.FromBools(data, shape...) }

// Uint8 makes a UINT8 tensor of the shape, or a vector without one.
func Uint8(data []uint8, shape ...int64) Tensor { return wire.FromUint8(data, shape...) }

// Int32 makes an INT32 tensor of the shape, or a vector without one.
func Int32(data []int32, shape ...int64) Tensor { return wire.FromInt32(data, shape...) }

// Int64 makes an INT64 tensor of the shape, or a vector without one.
func Int64(data []int64, shape ...int64) Tensor { return wire.FromInt64(data, shape...) }

// Strings makes a BYTES tensor of the shape, or a vector without one.
func Strings(data []string, shape ...int64) Tensor { return wire.FromStrings(data, shape...) }

// Result is the answer to one request. The zero Result, of a request of
// InferBatch that failed, has no outputs.
type Result struct {
	response *wire.InferResponse
}

// answer is empty where there is none.
func (r *Result) answer() *wire.InferResponse {
	if r.response == nil {
		return &wire.InferResponse{}
	}
	return r.response
}

// OK reports whether there is an answer.
func (r *Result) OK() bool { return r.response != nil }

// Tensor returns an output by name. The error lists the outputs that there are.
func (r *Result) Tensor(name string) (Tensor, error) {
	if !r.OK() {
		return Tensor{}, fmt.Errorf("sdk: there is no output %q, because the request failed", name)
	}
	for i := range r.response.Outputs {
		if r.response.Outputs[i].Name == name {
			return r.response.Outputs[i].Tensor, nil
		}
	}
	return Tensor{}, fmt.Errorf("sdk: the answer has no output %q; it has: %s", name, strings.Join(r.Names(), ", "))
}

// Names lists the outputs in the order of the pipeline's declaration.
func (r *Result) Names() []string {
	out := make([]string, len(r.answer().Outputs))
	for i := range out {
		out[i] = r.response.Outputs[i].Name
	}
	return out
}

// Float32s returns the elements of an FP32 output in row-major order.
func (r *Result) Float32s(name string) ([]float32, error) { return values(r, name, Tensor.Float32s) }

// Float64s returns the elements of an FP64 output in row-major order.
func (r *Result) Float64s(name string) ([]float64, error) { return values(r, name, Tensor.Float64s) }

// Float16s returns the elements of an FP16 output, which float32 holds exactly, in
// row-major order.
func (r *Result) Float16s(name string) ([]float32, error) { return values(r, name, Tensor.Float16s) }

// BFloat16s returns the elements of a BF16 output, which float32 holds exactly, in
// row-major order.
func (r *Result) BFloat16s(name string) ([]float32, error) { return values(r, name, Tensor.BFloat16s) }

// Bools returns the elements of a BOOL output in row-major order.
func (r *Result) Bools(name string) ([]bool, error) { return values(r, name, Tensor.Bools) }

// Uint8s returns the elements of a UINT8 output in row-major order.
func (r *Result) Uint8s(name string) ([]uint8, error) { return values(r, name, Tensor.Uint8s) }

// Int32s returns the elements of an INT32 output in row-major order.
func (r *Result) Int32s(name string) ([]int32, error) { return values(r, name, Tensor.Int32s) }

// Int64s returns the elements of an INT64 output in row-major order.
func (r *Result) Int64s(name string) ([]int64, error) { return values(r, name, Tensor.Int64s) }

// Strings returns the elements of a BYTES output in row-major order.
func (r *Result) Strings(name string) ([]string, error) { return values(r, name, Tensor.Strings) }

func values[T any](r *Result, name string, read func(Tensor) ([]T, error)) ([]T, error) {
	t, err := r.Tensor(name)
	if err != nil {
		return nil, err
	}
	v, err := read(t)
	if err != nil {
		return nil, fmt.Errorf("sdk: output %q: %w", name, err)
	}
	return v, nil
}

// ID is what the request was given with WithID.
func (r *Result) ID() string { return r.answer().ID }

// Generation is the number of the plan that served the request.
func (r *Result) Generation() int { return r.answer().Generation }

// Fresh reports, of a frame of a stream, that a module which keeps state began without: true of the first
// frame, and of a later one where state was lost.
func (r *Result) Fresh() bool { return r.answer().Fresh }

// Elapsed is the time from the request's arrival at the gateway to its answer.
func (r *Result) Elapsed() time.Duration { return r.answer().Elapsed }

// Stages reports where the time went. Over the critical stages queue, wait,
// compute and transfer add up to Elapsed.
func (r *Result) Stages() []Stage { return r.answer().Stages }

// Response is the answer as it came over the wire; nil where there is none.
func (r *Result) Response() *wire.InferResponse { return r.response }
