package pipelines

import (
	"errors"
	"fmt"
	"time"
)

// FunctionBuilder declares a function in Go. Its methods may be chained; what
// is wrong comes out of Build, all of it.
//
//	f, err := pipelines.NewFunction("vgg19", cloud).
//		Profile(coefficients).
//		Input("image", "FP32", 3, 224, 224).
//		Application("assistant", 500*time.Millisecond, 5).
//		Application("archive", time.Second, 20).
//		Build()
type FunctionBuilder struct {
	f     Function
	cloud Provider
}

// NewFunction starts a function that a provider runs.
func NewFunction(name string, p Provider) *FunctionBuilder {
	return &FunctionBuilder{f: Function{Name: name, Provider: p.Name}, cloud: p}
}

// Profile sets how long the model takes; see ReadFunctionProfile.
func (b *FunctionBuilder) Profile(p FunctionProfile) *FunctionBuilder { b.f.Profile = p; return b }

// Plan sets how the function is planned.
func (b *FunctionBuilder) Plan(p Planning) *FunctionBuilder { b.f.Plan = p; return b }

// Model sets the ONNX file that a provider on this machine computes with.
func (b *FunctionBuilder) Model(path string) *FunctionBuilder { b.f.Model = path; return b }

// Input declares an input, with its shape for one request.
func (b *FunctionBuilder) Input(name, datatype string, shape ...int64) *FunctionBuilder {
	b.f.Inputs = append(b.f.Inputs, Port{Name: name, Datatype: datatype, Shape: append([]int64{}, shape...)})
	return b
}

// Application adds a source of requests.
func (b *FunctionBuilder) Application(name string, slo time.Duration, rate float64) *FunctionBuilder {
	b.f.Applications = append(b.f.Applications, Application{Name: name, SLO: slo, Rate: rate})
	return b
}

// Build returns the function, or everything that is wrong with it or its
// provider.
func (b *FunctionBuilder) Build() (Function, error) {
	var errs []error
	if !validName(b.f.Name) {
		errs = append(errs, fmt.Errorf("pipelines: %q cannot name a function", b.f.Name))
	}
	for _, a := range b.f.Applications {
		if !validName(a.Name) {
			errs = append(errs, fmt.Errorf("pipelines: %q cannot name an application", a.Name))
		}
	}
	return b.f, errors.Join(append(errs, CheckFunction(&b.f, &b.cloud))...)
}
