// Package onnx reads and writes neural networks in the ONNX format, for the
// operators that Harpagon's own engine runs:
//
//	Add, Conv (group 1), Flatten, Gemm, GlobalAveragePool, Identity, MatMul,
//	MaxPool, Mul, Relu, Reshape, Sigmoid, Softmax, Tanh
//
// in float32, with the batch as first dimension. Anything else is an error that
// names the operator or data type, and the node that holds it.
//
// Model is generated from onnx.proto, the part of the public schema that is needed
// here; Outline is the part of it that describes a network without its weights, which are passed over
// where it is read. Compile checks a Model once, infers every shape, and yields a
// Program: a list of steps that an engine can run without further checks.
//
//	model, err := onnx.ReadFile("detect.onnx")
//	program, err := onnx.Compile(model)
//	fmt.Println(program.Signature())
//
// Networks are written from Go with a Builder.
package onnx
