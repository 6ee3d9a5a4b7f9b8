// Command train makes the networks of the traffic example from drawn scenes:
//
//	go run ./examples/traffic/train
//
// It trains a detector (one box per cell of a 12 by 12 grid), a classifier of
// vehicle kinds and one of colours, with gorgonia, from scenes of the training
// seeds, and writes them as ONNX files. Accuracy on scenes of other seeds is
// reported at the end; the test of package traffic holds it.
package main
