package wire

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Backend answers requests: a gateway, or a client of one. Every error of Infer is,
// or wraps, an *Error.
type Backend interface {
	Infer(context.Context, *InferRequest) (*InferResponse, error)
	Metadata(ctx context.Context, name string) (*Metadata, error)
	Pipelines(context.Context) ([]string, error) // what requests can name
}

// InferRequest asks a pipeline for one answer.
type InferRequest struct {
	ID       string // chosen by the caller, returned unchanged; may be empty
	Pipeline string
	Inputs   []NamedTensor
	Outputs  []string // names wanted; empty means all
	Frame    Frame    // of which stream it is a frame

	// Textual reports which outputs are to go as JSON, which has no numbers that are not finite;
	// nil means none. It does not travel.
	Textual func(output string) bool

	// InLine is called, where it is set, when the frames of its stream that come later are behind this one.
	// It may be called several times, or not at all where the frame fails. It does not travel.
	InLine func()

	// Arrived is when it came, as far as a server knows that; zero means now. It
	// does not travel.
	Arrived time.Time
}

// InferResponse is the answer to one request.
type InferResponse struct {
	ID         string
	Pipeline   string
	Generation int // of the plan that served the request
	Outputs    []NamedTensor
	Stages     []Stage
	Elapsed    time.Duration // from arrival at the gateway to the answer

	// Fresh says of a frame that a module which keeps state had none of its stream, as of the first frame:
	// of a later one it reports that state was lost.
	Fresh bool

	// Shift is how much later than it does the stream of a frame should send all frames to come, for
	// streams to be evenly apart; less than a period, 0 for not at all.
	Shift time.Duration
}

// Stage is where the time of a request went in one module. Over the stages on
// the request's critical path (Critical true) the four parts add up to Elapsed.
type Stage struct {
	Module   string
	Items    int // requests that the module saw for this one
	Batch    int // size of the batch that finished last
	Critical bool
	Queue    time.Duration // ready, no device free
	Wait     time.Duration // for the batch to fill
	Compute  time.Duration // in the engine
	Transfer time.Duration // to and from the executor, gather and scatter
}

// Metadata is what a gateway reports of a pipeline that it serves.
type Metadata struct {
	Pipeline   string
	Platform   string // what serves it, as the server states; empty for what a gateway is by default
	Generation int    // of the plan that serves now
	Ready      bool
	Reason     string // why it is not ready
	SLO        time.Duration
	Rate       float64           // requests per second that the plan is for; 0 where that is not known
	FrameRate  float64           // of one stream, where requests are frames; else 0
	Jitter     time.Duration     // how far a frame may come after that pace
	Spread     bool              // streams are to be spread evenly over a period
	Kinds      []Kind            // of streams, where there are several; then FrameRate is 0
	Overlay    pipelines.Overlay // what is drawn on frames
	Inputs     []pipelines.Port
	Memory     int64            // bytes that a model takes on its device, where its server tells
	Outputs    []pipelines.Port // a datatype is empty until an executor has attached

	// Applications of a function, each addressed as NAME/APPLICATION, with the
	// rates that are planned for; none for a pipeline.
	Applications []pipelines.Application

	// Members are the pipelines of a cluster, each addressed by its own name, with the
	// rates that are planned for.
	Members []pipelines.Application
}

// Streams are the kinds of streams of a pipeline, one without a name where it has a single one; none where
// requests are not frames.
func (m *Metadata) Streams() []Kind {
	if m.FrameRate > 0 {
		return []Kind{{Streams: int(math.Round(m.Rate / m.FrameRate)), FrameRate: m.FrameRate, Spread: m.Spread, Jitter: m.Jitter}}
	}
	return m.Kinds
}

// Kind is one of several kinds of streams of a pipeline.
type Kind struct {
	Name      string  `json:"name"`
	Streams   int     `json:"streams"`          // that are planned for
	FrameRate float64 `json:"frame_rate"`       // of one
	Spread    bool    `json:"spread,omitempty"` // they are to be spread evenly over a period

	Jitter time.Duration `json:"jitter_ns,omitempty"` // how far a frame may come after that pace
}

// Tenant is whose requests they are: a named token, with what it may.
type Tenant struct {
	Name   string
	Weight float64 // of its share of a service beside others'; 0 means 1
	Part   string  // what of the tenant's the share is for; empty for all
	Rate   float64 // requests per second that it may send to a gateway; 0 means any
}

type tenantKey struct{}

// WithTenant is the context of the requests of a tenant; nil changes nothing.
func WithTenant(ctx context.Context, t *Tenant) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tenantKey{}, t)
}

// TenantOf is whose request it is; nil where callers have no tokens of their own.
func TenantOf(ctx context.Context) *Tenant {
	t, _ := ctx.Value(tenantKey{}).(*Tenant)
	return t
}

// Caller is the name of a tenant, the name of a token; empty for nil.
func (t *Tenant) Caller() string {
	if t == nil {
		return ""
	}
	return t.Name
}

// Arrange puts the inputs of a request into the order of the ports that it asks,
// and checks them: every port once, of its datatype and shape, with data that
// agree. A leading batch dimension of 1 that the port does not have is taken
// off. A port without datatype or shape takes any. to names what is asked.
func Arrange(ports []pipelines.Port, given []NamedTensor, to string) ([]Tensor, *Error) {
	inputs := make([]Tensor, len(ports))
	seen := make([]bool, len(ports))
	for _, t := range given {
		i := slices.IndexFunc(ports, func(p pipelines.Port) bool { return p.Name == t.Name })
		if i < 0 {
			return nil, Errorf(CodeInvalid, "", "there is no input %q; %s takes %s", t.Name, to, portNames(ports))
		}
		if seen[i] {
			return nil, Errorf(CodeInvalid, "", "input %q is given twice", t.Name)
		}
		var err *Error
		if inputs[i], err = fit(&ports[i], t.Tensor); err != nil {
			return nil, err
		}
		seen[i] = true
	}
	if i := slices.Index(seen, false); i >= 0 {
		p := &ports[i]
		return nil, Errorf(CodeInvalid, "", "input %q is missing; it is %s %v", p.Name, p.Datatype, p.Shape)
	}
	return inputs, nil
}

// fit checks a tensor against its port.
func fit(p *pipelines.Port, t Tensor) (Tensor, *Error) {
	if p.Datatype != "" && t.Datatype != p.Datatype {
		return t, Errorf(CodeInvalid, "", "input %q is %s where %s is declared", p.Name, t.Datatype, p.Datatype)
	}
	if !ShapeFits(p.Shape, t.Shape) {
		if len(t.Shape) != len(p.Shape)+1 || t.Shape[0] != 1 || !ShapeFits(p.Shape, t.Shape[1:]) {
			return t, Errorf(CodeInvalid, "", "input %q has shape %v where %v is declared", p.Name, t.Shape, p.Shape)
		}
		t.Shape = t.Shape[1:]
	}
	if err := t.Validate(); err != nil {
		return t, Errorf(CodeInvalid, "", "input %q: %s", p.Name, strings.TrimPrefix(err.Error(), "wire: "))
	}
	return t, nil
}

// ShapeFits reports whether a tensor's shape is the one that a port declares,
// where a dimension below zero stands for any.
func ShapeFits(want, have []int64) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if have[i] < 0 || (want[i] >= 0 && have[i] != want[i]) {
			return false
		}
	}
	return true
}

func portNames(ports []pipelines.Port) string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = p.Name
	}
	return strings.Join(all, ", ")
}

// Batch takes a request apart that brings several: every input has exactly one
// dimension more than its port declares, the same first one of n, and fits the
// port without it. Part i has row i of every input. The answers are put together
// by Join.
//
// The number of dimensions decides, and a port declares it also where they vary:
// a tensor with as many as the port is never a batch. It is nil for a request that
// is none, or is wrong, which Arrange says. It is an error where some inputs have a
// batch dimension and others have not, unless it is 1, which Arrange takes off, or
// where they differ, or n is 0.
func Batch(ports []pipelines.Port, given []NamedTensor) ([][]NamedTensor, *Error) {
	plain, first := -1, -1
	for i, t := range given {
		at := slices.IndexFunc(ports, func(p pipelines.Port) bool { return p.Name == t.Name })
		switch {
		case at < 0:
			return nil, nil
		case ShapeFits(ports[at].Shape, t.Shape):
			plain = i
		case len(t.Shape) != len(ports[at].Shape)+1 || !ShapeFits(ports[at].Shape, t.Shape[1:]):
			return nil, nil
		case first < 0:
			first = i
		case t.Shape[0] != given[first].Shape[0]:
			return nil, Errorf(CodeInvalid, "", "input %q has a batch of %d and input %q one of %d; the inputs of a batch have the same first dimension",
				given[first].Name, given[first].Shape[0], t.Name, t.Shape[0])
		}
	}
	if first < 0 {
		return nil, nil
	}
	n := given[first].Shape[0]
	switch {
	case plain >= 0 && n == 1:
		return nil, nil
	case plain >= 0:
		return nil, Errorf(CodeInvalid, "", "input %q has a batch of %d and input %q has none, with shape %v as declared; give every input of a batch its own first dimension of %d",
			given[first].Name, n, given[plain].Name, given[plain].Shape, n)
	case n < 1:
		return nil, Errorf(CodeInvalid, "", "a batch of no requests: the first dimension of input %q is %d", given[first].Name, n)
	}
	return apart(given, int(n))
}

func apart(given []NamedTensor, n int) ([][]NamedTensor, *Error) {
	var parts [][]NamedTensor
	for j, t := range given {
		err := t.Validate()
		var rows []Tensor
		if err == nil {
			rows, err = Rows(t.Tensor)
		}
		if err != nil {
			return nil, Errorf(CodeInvalid, "", "input %q: %s", t.Name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		if parts == nil {
			parts = make([][]NamedTensor, n)
		}
		for i := range parts {
			if parts[i] == nil {
				parts[i] = make([]NamedTensor, len(given))
			}
			parts[i][j] = NamedTensor{Name: t.Name, Tensor: rows[i]}
		}
	}
	return parts, nil
}

// Join puts the answers to the parts of a batch together, in order: every output
// has one dimension more, of as many as there are answers. What is of one request,
// such as its stages, is that of the answer that took longest. Outputs that differ
// in shape from one answer to another cannot be joined.
func Join(answers []*InferResponse) (*InferResponse, *Error) {
	last := answers[0]
	for _, a := range answers {
		if a.Elapsed > last.Elapsed {
			last = a
		}
	}
	joined := *last
	joined.Outputs = make([]NamedTensor, len(last.Outputs))
	for j := range joined.Outputs {
		name := last.Outputs[j].Name
		rows := make([]Tensor, len(answers))
		for i, a := range answers {
			if len(a.Outputs) != len(last.Outputs) || a.Outputs[j].Name != name {
				return nil, Errorf(CodeInternal, "", "the answers to the requests of a batch have different outputs; send it again")
			}
			rows[i] = a.Outputs[j].Tensor
		}
		t, err := Stack(rows)
		if err != nil {
			return nil, Errorf(CodeInvalid, "", "output %q of a batch cannot be joined, because the answers differ (%s); send the requests one by one",
				name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		joined.Outputs[j] = NamedTensor{Name: name, Tensor: t}
	}
	return &joined, nil
}

// OfBatch says in an error which request of a batch it is about, counted from 1.
func OfBatch(err *Error, i, n int) *Error {
	e := *err
	e.Reason = fmt.Sprintf("request %d of %d: %s", i+1, n, e.Reason)
	return &e
}
