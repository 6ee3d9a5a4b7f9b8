// Package onnx reads and writes neural networks in the ONNX format, for the
// operators that Harpagon's own engine runs:
//
//	Add, Conv (group 1), Flatten, Gemm, GlobalAveragePool, Identity, MatMul,
//	MaxPool, Mul, Relu, Reshape, Sigmoid, Softmax, Tanh
//
// in float32, with the batch as first dimension. Anything else is an error that
// names the operator or data type, and the node that holds it.
//
// decode and Encode translate between bytes and Model, the part of the public
// schema that is needed here (field numbers are those of onnx.proto3, IR
// version 8). Compile checks a Model once, infers every shape, and yields a
// Program: a list of steps that an engine can run without further checks.
//
//	model, err := onnx.ReadFile("detect.onnx")
//	program, err := onnx.Compile(model)
//	fmt.Println(program.Signature())
//
// Networks are written from Go with a Builder.
package onnx
