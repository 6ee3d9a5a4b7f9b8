// Package triton makes a declaration of a model repository of Triton Inference Server: a folder
// with a folder for each model, in which stand its configuration (config.pbtxt, protocol buffers
// as text) and numbered folders with its versions.
//
// Read reads the repository and Import makes pipelines of it: one of each ensemble, and one of
// each model that no ensemble uses. What has no counterpart is a finding at file, line and column
// that reports what to do instead; what is broken is an error.
//
//	repository, diags := triton.Read("models")
//	imported, more := repository.Import(triton.Options{Folder: "served", SLO: time.Second, Rate: 10})
//	os.WriteFile("served/pipelines.hcl", imported.HCL(), 0o644)
//
// How a model is computed afterwards follows from its backend: an ONNX file by the engines of this
// program, a model of the Python backend by its own file in a process (python/harpagon_engine), and
// any other by a Triton that goes on serving it, as a module of engine remote.
//
// Package modelconfig has the configuration's schema.
package triton
