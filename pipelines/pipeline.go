package pipelines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	Update     Update        `json:",omitzero"`  // how a change is carried out
	Stream     Stream        `json:",omitzero"`  // where requests are frames of streams; Rate is that of all of them
	Kinds      []Stream      `json:",omitempty"` // or of streams of several kinds, each with its name, in place of Stream
	Overlay    Overlay       `json:",omitzero"`  // what is drawn on these frames
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

	// Loop is, of an input of a module that keeps state, the output whose value of the frame before
	// is fed to it: nobody binds it, and the first frame of a stream has zeros. Empty for all others.
	Loop string `json:",omitempty"`
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
// or []any of these, one level for each dimension. Or, where it is set, feeds it where what makes
// From does not run: the two are the branches of one condition, and the input gets what one of
// them makes, as it is.
type Binding struct {
	Name  string
	From  Ref
	Or    Ref `json:",omitzero"`
	Value any `json:",omitempty"`
}

// IsConstant reports whether the input has a constant.
func (b Binding) IsConstant() bool { return b.Value != nil }

// IsMerge reports whether one of two branches feeds the input.
func (b Binding) IsMerge() bool { return b.Or != Ref{} }

// Sources are the tensors that feed the input; none where it has a constant.
func (b Binding) Sources() []Ref {
	switch {
	case b.IsConstant():
		return nil
	case b.IsMerge():
		return []Ref{b.From, b.Or}
	}
	return []Ref{b.From}
}

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

	// Libraries are shared libraries with operators that the network uses beside ONNX's own,
	// at these paths of the machine that runs it: they are code, and do not travel.
	Libraries []string `json:",omitempty"`

	// Unbatched is true for a network that takes one request at a time: its tensors
	// go through as they are, without a batch dimension.
	Unbatched bool `json:",omitempty"`

	// BatchAxis states which dimension of an input or output, by name, is the batch,
	// where that is not the first: counted from 0 in the network's own shape, or
	// NoBatchAxis for a tensor that all requests of a batch share.
	BatchAxis map[string]int `json:",omitempty"`

	// State is true for a module that keeps state between the frames of a stream, such as a tracker
	// or a recurrent network. See Port.Loop.
	State bool `json:",omitempty"`

	// Loops are, of a module with State, the outputs that go back to inputs, by input, where the
	// declaration pairs them; without it, their names or the program's metadata do.
	Loops map[string]string `json:",omitempty"`

	// Scatter is true when the declaration gives a fanout: every input whose
	// first dimension varies is then split along it, and each row becomes a
	// request of its own to this module. Fanout is the mean number of such
	// requests per upstream request; it is 1 when not declared. Most is how many there
	// are at most; 0 where the declaration does not say (see MostItems).
	Scatter bool
	Fanout  float64
	Most    int `json:",omitempty"`

	// Items is how many such requests there were while it served, by how often so many: what
	// simulations draw from in place of the mean. No HCL attribute.
	Items Mix `json:",omitempty"`

	// Gather names the module for each item of whose scope the module runs once, with all
	// that descend from that item: one of those above it, or GatherAround. Empty where it
	// runs in the deepest scope that its inputs share.
	Gather string `json:",omitempty"`

	// When is the condition under which the module runs in an item: that some element of the
	// tensor is not zero or, with Else, that none is. Its inputs are not split then: it scatters
	// into one item or none, Fanout is the share of those with one, and Most is 1. The zero
	// Ref is no condition.
	When Ref  `json:",omitzero"`
	Else bool `json:",omitempty"`

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

// IsConditional reports whether the module has a condition.
func (m *Module) IsConditional() bool { return m.When != Ref{} }

// Reads lists the tensors that the module depends on: those that feed its inputs, and its
// condition.
func (m *Module) Reads() []Ref {
	refs := make([]Ref, 0, len(m.Inputs)+1)
	for _, b := range m.Inputs {
		refs = append(refs, b.Sources()...)
	}
	if m.IsConditional() {
		refs = append(refs, m.When)
	}
	return refs
}

// GatherAround is in Module.Gather for the scope around the one that all inputs share.
const GatherAround = "*"

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

	Unusable  map[string]string `json:",omitempty"` // outputs that are not among these, and why
	Doubts    map[string]string `json:",omitempty"` // outputs that may not be what they are taken for, and why
	Unchecked string            `json:",omitempty"` // why this machine cannot tell whether the model runs
}

// Loops are the outputs that go back to inputs; see Port.Loop.
func (s *Signature) Loops() (outputs []string) {
	for _, p := range s.Inputs {
		if p.Loop != "" {
			outputs = append(outputs, p.Loop)
		}
	}
	return outputs
}

// IsName keeps names usable in references, workflow ids and addresses.
func IsName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '_' && r != '.') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// MaxRank bounds the dimensions of a tensor.
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

// Hardware is a kind of device that can be paid for by the hour.
type Hardware struct {
	Name   string
	Price  float64 // money per hour of one whole device
	Memory int64   // bytes of one device; 0 when unknown
	Count  int     // how many exist; 0 when unlimited

	// Cores is how many processor cores one device of this kind is made of, where it
	// is an instance that a machine offers part of itself as; 0 for anything else.
	Cores int `json:",omitempty"`

	// Interruptions is how often one device is taken back by who rents it out, per
	// hour; 0 for never. Recovery is how long it then takes, on average, until another
	// serves in its place; 0 for DefaultRecovery.
	Interruptions float64       `json:",omitempty"`
	Recovery      time.Duration `json:",omitempty"`

	// Listed states where price and interruptions were read.
	Listed Listing `json:",omitzero"`
}

// Listing is the line of a price list that a kind of hardware is bought by.
type Listing struct {
	File   string // of the list; empty where the declaration states the price
	Name   string // of the line
	Market string // one of Markets; empty for the first
}

// The ways to rent a device: for as long as it is wanted, or for less money until
// somebody else pays more.
const (
	MarketOnDemand = "on-demand"
	MarketSpot     = "spot"
)

// Markets are what Listing.Market may be.
func Markets() []string { return []string{MarketOnDemand, MarketSpot} }

// DefaultRecovery is how long a device that was taken back is missed where nothing
// else is declared: noticing it, renting another, starting a worker there and
// loading the models.
const DefaultRecovery = 5 * time.Minute

// MaxInterruptions bounds how often a device is taken back: a minute is not worth
// renting.
const MaxInterruptions = 60

// Away is the share of time in which a device of this kind is missed, in the long
// run: it serves for a mean time of 1/Interruptions, and then another takes its
// place after Recovery. late is added to every recovery.
func (h Hardware) Away(late time.Duration) float64 {
	if h.Interruptions <= 0 {
		return 0
	}
	recovery := h.Recovery
	if recovery == 0 {
		recovery = DefaultRecovery
	}
	lost := h.Interruptions * (recovery + late).Hours()
	return lost / (1 + lost)
}

// Cluster is a set of devices of one kind, any of which may run any module of the
// pipelines in it; one dispatcher decides for all of them together (Symphony).
// Its pipelines are planned and served in it, and not by themselves.
type Cluster struct {
	Name      string
	Hardware  string   // the kind of its devices
	Devices   Range    // how many it may have; the zero value is as many as it needs
	Dispatch  string   // one of Dispatches(KindCluster), with variants or without; empty means the first
	Pipelines []string // names
}

// Range is from how many to how many.
type Range struct{ Min, Max int }

// Members are the pipelines of the cluster, in their order in it. Names that no
// pipeline has are left out.
func (d *Document) Members(c *Cluster) []Pipeline {
	var all []Pipeline
	for _, name := range c.Pipelines {
		if i := slices.IndexFunc(d.Pipelines, func(p Pipeline) bool { return p.Name == name }); i >= 0 {
			all = append(all, d.Pipelines[i])
		}
	}
	return all
}

// ClusterOf names the cluster that a pipeline is in; empty where it is in none.
func (d *Document) ClusterOf(pipeline string) string {
	for _, c := range d.Clusters {
		if slices.Contains(c.Pipelines, pipeline) {
			return c.Name
		}
	}
	return ""
}

// Kinds of arrivals that a declaration may name.
const (
	ArrivalsEven    = "even"    // one every 1/rate seconds
	ArrivalsPoisson = "poisson" // independent, with exponential gaps
	ArrivalsGamma   = "gamma"   // gamma:SHAPE, gaps of that gamma distribution; below 1 is burstier than Poisson
	ArrivalsTrace   = "trace"   // trace:FILE, requests in each second
)

// Bounds of what arrivals may say. Beyond those of the shape, gaps cannot be
// told from none, or from even ones.
const (
	minShape, maxShape = 1e-3, 1e6
	MaxCount           = 1e8     // requests in one second
	MaxSpan            = 1 << 30 // seconds; 34 years
	MaxDeclaredTrace   = 100_000 // lines; the declaration travels with its trace
)

// Trace is how many requests come in each second.
type Trace struct {
	Seconds []int64   // rising; those in between have no requests
	Counts  []float64 // by place in Seconds, not negative
}

// Span is the whole number of seconds from the start to the end of the last
// second that the trace names.
func (t *Trace) Span() time.Duration {
	if t == nil || len(t.Seconds) == 0 {
		return 0
	}
	return time.Duration(t.Seconds[len(t.Seconds)-1]+1) * time.Second
}

// Total is the number of requests.
func (t *Trace) Total() float64 {
	sum := 0.0
	if t != nil {
		for _, n := range t.Counts {
			sum += n
		}
	}
	return sum
}

// Mean is the requests per second over the whole span.
func (t *Trace) Mean() float64 {
	if t.Span() == 0 {
		return 0
	}
	return t.Total() / t.Span().Seconds()
}

// SplitArrivals reads "even", "poisson", "gamma:SHAPE" or "trace:FILE"; empty
// means even. Of a trace it gives the name of the file.
func SplitArrivals(s string) (kind string, shape float64, file string, err error) {
	kind, rest, given := strings.Cut(s, ":")
	switch kind {
	case "":
		if s == "" {
			return ArrivalsEven, 0, "", nil
		}
	case ArrivalsEven, ArrivalsPoisson:
		if !given {
			return kind, 0, "", nil
		}
		return "", 0, "", fmt.Errorf("arrivals %q: %s takes nothing after it", s, kind)
	case ArrivalsGamma:
		shape, err := strconv.ParseFloat(rest, 64)
		if err != nil || !(shape >= minShape && shape <= maxShape) {
			return "", 0, "", fmt.Errorf("arrivals %q: the shape of gamma is a number from %g to %g, as in gamma:0.1; 1 is Poisson, less is burstier", s, minShape, maxShape)
		}
		return kind, shape, "", nil
	case ArrivalsTrace:
		if rest == "" {
			return "", 0, "", fmt.Errorf("arrivals %q: name the file of the trace, as in trace:counts.csv", s)
		}
		return kind, 0, rest, nil
	}
	return "", 0, "", fmt.Errorf("there are no arrivals %q; there is even, poisson, gamma:SHAPE and trace:FILE", s)
}

// Update states how a change of a pipeline is carried out, as its update block says; the
// zero value moves all traffic at once.
type Update struct {
	Canary float64       // share of requests that the new generation answers first, 0 to 1
	Shadow float64       // share of requests that it is sent as well, and does not answer, 0 to 1
	Hold   time.Duration // for how long; 0 means DefaultHold
	Revert Revert
}

// Revert states when a change is taken back.
type Revert struct {
	Attainment float64 // the least that the new generation may attain, as a share of what the old one does; 0 means DefaultRevert
	Cost       float64 // the most that it may cost per request, in terms of the old one; 0 for any
}

// Defaults of Update.
const (
	DefaultHold   = time.Minute
	DefaultRevert = 0.98
)

// UpdatePath is where an update block stands within its pipeline; see PlanPath.
const UpdatePath = ".{update}"

// IsZero reports that nothing is declared.
func (u Update) IsZero() bool { return u == Update{} }

// Tried reports that a change is tried on a share of requests first.
func (u Update) Tried() bool { return u.Canary > 0 || u.Shadow > 0 }

// Faults are what is wrong with an update block.
func (u Update) Faults() []Fault {
	var all []Fault
	share := func(name string, x float64) {
		if !(x >= 0 && x <= 1) {
			all = append(all, Fault{name, "Not a share", name + " is a share of the requests, above 0 and at most 1, such as 0.1."})
		}
	}
	share("canary", u.Canary)
	share("shadow", u.Shadow)
	switch {
	case len(all) > 0:
	case u.Canary+u.Shadow > 1:
		all = append(all, Fault{"shadow", "More than all requests", "What the new generation answers is not sent to it once more: canary and shadow together are at most 1."})
	case !u.Tried():
		all = append(all, Fault{"canary", "Nothing is tried", "An update block needs the share of requests that tries a change first, such as canary = 0.1 or shadow = 0.1; otherwise take it out."})
	}
	if u.Hold < 0 {
		all = append(all, Fault{"hold", "Not a time", "hold is how long a change is tried, such as \"60s\"."})
	}
	if !(u.Revert.Attainment >= 0 && u.Revert.Attainment <= 1) {
		all = append(all, Fault{"revert", "Not a share", "attainment of revert is the least that the new generation may attain as a share of what the old one does, above 0 and at most 1, such as 0.98."})
	}
	if c := u.Revert.Cost; c < 0 || !IsFinite(c) {
		all = append(all, Fault{"revert", "Not a factor", "cost of revert is the most that a request may cost in terms of before, such as 1.2."})
	}
	return all
}
