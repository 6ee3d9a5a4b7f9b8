// Package gorgonia is the engine that needs nothing but Go: it runs ONNX
// programs on gorgonia's graphs and tape machines, on the CPU, in float32.
//
// Gorgonia fixes the batch size in the graph, so an instance holds one graph
// and machine for every batch size that it was loaded for, its buckets; a batch
// in between is padded up to the next. A machine is reset before every run,
// since without that gorgonia keeps the last output silently.
//
// A panic inside gorgonia happens in a goroutine of its own and ends the
// process. Every shape is therefore checked beforehand (package onnx), and
// programs that serve run this engine in a child process (package child).
package gorgonia
