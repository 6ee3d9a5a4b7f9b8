package pipelines

import "time"

// Document is everything that a set of HCL files declares together.
type Document struct {
	Hardware  []Hardware
	Pipelines []Pipeline
	Providers []Provider
	Functions []Function
	Pools     []Pool
	Clusters  []Cluster `json:",omitempty"`
}

// Pipeline is a DAG of modules under one end-to-end latency objective.
type Pipeline struct {
	Name       string
	SLO        time.Duration // counted from a request's arrival
	Rate       float64       // requests per second at the source
	Arrivals   string        // "even", "poisson", "gamma:SHAPE", "trace:FILE"; empty means even
	Trace      *Trace        // what the file of Arrivals holds; nil for other kinds
	Attainment float64       // share of requests that must finish within SLO; 0 is the default (see Target), NoAttainment asks for none
	Headroom   *float64      `json:",omitempty"` // share of the SLO that plans leave free, 0 to 1; nil is the default (see Kept)
	Accuracy   float64       `json:",omitempty"` // the least that the variants of modules may add up to; see Right. 0 for any
	Dispatch   string        // one of Dispatches, with variants or without; empty means the default
	Plan       Planning      `json:",omitzero"`
	Update     Update        `json:",omitzero"` // how a change is carried out
	Inputs     []Port
	Modules    []Module // in order of declaration
	Outputs    []Output
}

// Port is a named tensor: its datatype in Open Inference Protocol spelling
// ("FP32", "UINT8", "INT64", "BYTES", ...) and its shape for one request,
// without a batch dimension. A dimension of -1 varies from request to request.
type Port struct {
	Name     string
	Datatype string
	Shape    []int64

	// Typical is the shape of a typical request where Shape varies: what profiles,
	// warm-ups and loads send. Sample is the file that it was read from; both are
	// empty where nothing is declared.
	Typical []int64 `json:",omitempty"`
	Sample  string  `json:",omitempty"`
}

// Output names a value that the pipeline returns to its caller.
type Output struct {
	Name string
	From Ref
}

// Ref points at a tensor: an output of a module, or, when Module is empty,
// an input of the pipeline.
type Ref struct {
	Module string
	Port   string
}

// Binding feeds the input Name of a module from a tensor elsewhere, or, where
// Value is set, with the same constant for all requests: a float64, string, bool,
// or []any of these, one level for each dimension.
type Binding struct {
	Name  string
	From  Ref
	Value any `json:",omitempty"`
}

// IsConstant says whether the input has a constant.
func (b Binding) IsConstant() bool { return b.Value != nil }

// Module is one network (Model) or one processing step (Function). Both may be
// empty in a pipeline that is only planned or run on emulated engines; the
// profile then says everything that is known of the module.
type Module struct {
	Name     string
	Model    string   // path of an ONNX file, or the address of a model on a server (see Remote)
	Function string   // name of a built-in or registered Go function
	Engine   string   // "auto" when empty
	Command  []string `json:",omitempty"` // program and arguments that serve the model; see EngineProcess
	Files    []string `json:",omitempty"` // paths of what Command needs besides its arguments
	Inputs   []Binding

	// Unbatched is true for a network that takes one request at a time: its tensors
	// go through as they are, without a batch dimension.
	Unbatched bool `json:",omitempty"`

	// BatchAxis says which dimension of an input or output, by name, is the batch,
	// where that is not the first: counted from 0 in the network's own shape, or
	// NoBatchAxis for a tensor that all requests of a batch share.
	BatchAxis map[string]int `json:",omitempty"`

	// Scatter is true when the declaration gives a fanout: every input whose
	// first dimension varies is then split along it, and each row becomes a
	// request of its own to this module. Fanout is the mean number of such
	// requests per upstream request; it is 1 when not declared.
	Scatter bool
	Fanout  float64

	// Sized is true for the module of a pool: a request is a query of several
	// items, the rows of its inputs, and runs as one batch of them, alone. How
	// long it takes is read off the profile as Latency does. No HCL attribute.
	Sized bool

	Rate       float64        // overrides the rate that follows from the DAG; 0 when not given
	Hardware   []string       // kinds that may run the module; empty means all declared
	Batches    []int          // batch sizes to profile; empty means the default
	Parameters map[string]any // of a Function: float64, string, bool, or []any and map[string]any of these

	// Typical are shapes of typical requests, by input, where these vary: they go
	// before what the pipeline's own inputs say.
	Typical map[string][]int64 `json:",omitempty"`

	ProfileFile string // path as declared
	Profile     Profile

	// Accuracy is the share of the network's answers that are right; 0 where it is not
	// declared. Variants may serve in its place, and Variant is the name of the one that
	// does, as planned; see As. Variant has no HCL attribute.
	Accuracy float64   `json:",omitempty"`
	Variants []Variant `json:",omitempty"`
	Variant  string    `json:",omitempty"`

	// Content is every file that the module needs where it runs, as it was when the
	// declaration was applied. Empty before, and of a module that needs none. No HCL
	// attribute.
	Content []File `json:",omitempty"`
}

// NoBatchAxis is in Module.BatchAxis for a tensor without a batch dimension.
const NoBatchAxis = -1

// Profile is what has been measured of a module.
type Profile struct {
	Points []Point
}

// Point is one measured configuration.
type Point struct {
	Hardware    string
	Batch       int
	Concurrency int           // engines of this module that run side by side on the device
	Duration    time.Duration // of one batch
	MemoryMiB   float64       // of the device while it runs; 0 when unknown

	// Spread is the noise of Duration: one run in 20 took at least that much
	// longer. 0 when unknown. A profile file holds it as spread_ms.
	Spread time.Duration `json:",omitempty"`

	// Others is how many processor cores other processes used while the point
	// was measured, where that may have disturbed it; 0 when the machine was calm
	// or nothing is known. A profile file holds it as others_cores.
	Others float64 `json:",omitempty"`
}

// Signature is what a model or function consumes and produces for one request.
type Signature struct {
	Inputs  []Port
	Outputs []Port
}

// validName keeps names usable in references, workflow ids and addresses.
func IsName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '_' && r != '.') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// maxRank bounds the dimensions of a tensor.
const MaxRank = 32

// HardwareNamed is the hardware of that name; the zero Hardware where there is none.
func (d *Document) HardwareNamed(name string) Hardware {
	for _, h := range d.Hardware {
		if h.Name == name {
			return h
		}
	}
	return Hardware{}
}
