package pipelines

// Source is what a module is computed from.
type Source string

// The sources.
const (
	SourceFunction Source = "function" // a processing step in Go
	SourceAddress  Source = "address"  // a model on a server
	SourceCommand  Source = "command"  // a program that serves the model
	SourceFile     Source = "file"     // an ONNX model
	SourceProfile  Source = "profile"  // nothing but what was measured elsewhere
)

// Engine is a line of the table of engines: what declarations, checks, help and docs must know of
// one. Package sdk/local/system makes them; a program that embeds the system may bring
// others, of which nothing here is known but what their modules say.
type Engine struct {
	Name    string
	Takes   Source
	AnyAxis bool   // ONNX Runtime: batches may have another axis than the first, and operators come from libraries
	State   bool   // modules may keep state between the frames of a stream
	Help    string // what it runs
}

// Engines is the table. Of those that take a source, the first is what runs it where a module
// leaves that open and no other is found on the machine.
func Engines() []Engine {
	return []Engine{
		{Name: EngineFunction, Takes: SourceFunction, Help: "processing steps written in Go"},
		{Name: "gorgonia", Takes: SourceFile, Help: "ONNX models of 15 operators, on CPU cores, with nothing to install"},
		{Name: "onnxruntime", Takes: SourceFile, AnyAxis: true, State: true, Help: "any ONNX model, on CPU cores"},
		{Name: "onnxruntime-cuda", Takes: SourceFile, AnyAxis: true, State: true, Help: "any ONNX model, on NVIDIA GPUs through CUDA"},
		{Name: "onnxruntime-tensorrt", Takes: SourceFile, AnyAxis: true, State: true, Help: "any ONNX model, on NVIDIA GPUs through TensorRT"},
		{Name: EngineRemote, Takes: SourceAddress, State: true, Help: "models on servers of the Open Inference Protocol: model = \"grpc://HOST:PORT/MODEL\""},
		{Name: EngineProcess, Takes: SourceCommand, State: true, Help: "models that a command serves on a Unix socket: command = [\"python3\", \"./serve.py\"]"},
		{Name: EngineEmulated, Takes: SourceProfile, State: true, Help: "nothing: it sleeps for the time of the profile"},
	}
}

// Engines of sources that have one each.
const (
	EngineFunction = "function"
	EngineRemote   = "remote"
	EngineProcess  = "process"
	EngineEmulated = "emulated"
)

// EngineAuto leaves the choice of an engine open, as no name does.
const EngineAuto = "auto"

// EngineNamed is the line of an engine; false for none of this project.
func EngineNamed(name string) (Engine, bool) {
	for _, e := range Engines() {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{Name: name}, false
}
