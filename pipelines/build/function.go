package build

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// FunctionBuilder declares a function in Go. Its methods may be chained; what
// is wrong comes out of Build, all of it.
//
//	f, err := build.NewFunction("vgg19", cloud).
//		Profile(coefficients).
//		Input("image", "FP32", 3, 224, 224).
//		Application("assistant", 500*time.Millisecond, 5).
//		Application("archive", time.Second, 20).
//		Build()
type FunctionBuilder struct {
	f     pipelines.Function
	cloud pipelines.Provider
}

// NewFunction starts a function that a provider runs.
func NewFunction(name string, p pipelines.Provider) *FunctionBuilder {
	return &FunctionBuilder{f: pipelines.Function{Name: name, Provider: p.Name}, cloud: p}
}

// Profile sets how long the model takes; see ReadFunctionProfile.
func (b *FunctionBuilder) Profile(p pipelines.FunctionProfile) *FunctionBuilder {
	b.f.Profile = p
	return b
}

// Plan sets how the function is planned.
func (b *FunctionBuilder) Plan(p pipelines.Planning) *FunctionBuilder { b.f.Plan = p; return b }

// Model sets the ONNX file that a provider on this machine computes with.
func (b *FunctionBuilder) Model(path string) *FunctionBuilder { b.f.Model = path; return b }

// Input declares an input, with its shape for one request.
func (b *FunctionBuilder) Input(name, datatype string, shape ...int64) *FunctionBuilder {
	b.f.Inputs = append(b.f.Inputs, pipelines.Port{Name: name, Datatype: datatype, Shape: append([]int64{}, shape...)})
	return b
}

// Application adds a source of requests.
func (b *FunctionBuilder) Application(name string, slo time.Duration, rate float64) *FunctionBuilder {
	b.f.Applications = append(b.f.Applications, pipelines.Application{Name: name, SLO: slo, Rate: rate})
	return b
}

// Build returns the function, or everything that is wrong with it or its
// provider.
func (b *FunctionBuilder) Build() (pipelines.Function, error) {
	var errs []error
	if !pipelines.IsName(b.f.Name) {
		errs = append(errs, fmt.Errorf("pipelines: %q cannot name a function", b.f.Name))
	}
	for _, a := range b.f.Applications {
		if !pipelines.IsName(a.Name) {
			errs = append(errs, fmt.Errorf("pipelines: %q cannot name an application", a.Name))
		}
	}
	return b.f, errors.Join(append(errs, pipelines.CheckFunction(&b.f, &b.cloud))...)
}
