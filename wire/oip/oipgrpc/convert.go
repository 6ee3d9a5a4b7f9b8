package oipgrpc

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// Names of parameters.
const (
	timeoutKey  = "timeout"
	elapsedTime = "elapsed_ns"
	stagesKey   = "stages"
)

// Call is a decoded inference request with what else it asks for.
type Call struct {
	Request wire.InferRequest
	Version string        // asked for; empty for any
	Timeout time.Duration // 0 when none is asked for
	Raw     bool          // the tensors came raw, so the answer's go raw
	Number  int64         // by a stream; 0 for none
	Cancel  int64         // by a stream: the number of a request that this, which is none, takes back

	// Of what Codec has read: the length of the message in bytes, and what is wrong with
	// it, like DecodeRequest.
	Size int
	Err  error

	// Room for the inputs of most.
	one    [1]wire.NamedTensor
	shapes [4]int64
}

func invalid(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.CodeInvalid, "", format, args...)
}

// DecodeRequest reads a request. The error is a *wire.Error of code "invalid"
// that says where the request is wrong. Whether the tensors' shapes and data
// agree is checked; whether they fit the pipeline is not. Raw tensors alias the
// message.
func DecodeRequest(m *pb.ModelInferRequest) (*Call, error) {
	c := new(Call)
	if err := c.decode(m); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Call) decode(m *pb.ModelInferRequest) (err error) {
	c.Version, c.Raw = m.GetModelVersion(), len(m.GetRawInputContents()) > 0 || len(m.GetInputs()) == 0
	c.Request.Pipeline, c.Request.ID = m.GetModelName(), m.GetId()
	c.Number, c.Cancel = m.GetParameters()[numberKey].GetInt64Param(), m.GetParameters()[cancelKey].GetInt64Param()
	if c.Timeout, err = timeout(m.GetParameters()); err != nil {
		return err
	}
	raw := m.GetRawInputContents()
	if c.Raw && len(raw) != len(m.GetInputs()) {
		return invalid("there are %d inputs and %d raw_input_contents; give one for each, in order", len(m.GetInputs()), len(raw))
	}
	if c.Request.Inputs = c.one[:]; len(m.GetInputs()) != 1 {
		c.Request.Inputs = make([]wire.NamedTensor, len(m.GetInputs()))
	}
	for i, in := range m.GetInputs() {
		var data []byte
		if c.Raw {
			data = raw[i]
		}
		if c.Request.Inputs[i], err = tensor("input", i, in, data, c.Raw); err != nil {
			return err
		}
	}
	for _, out := range m.GetOutputs() {
		switch {
		case out.GetName() == "":
			return invalid("an output that is asked for has no name")
		case slices.Contains(c.Request.Outputs, out.GetName()):
			return invalid("output %q is asked for twice", out.GetName())
		}
		c.Request.Outputs = append(c.Request.Outputs, out.GetName())
	}
	return nil
}

func timeout(parameters map[string]*pb.InferParameter) (time.Duration, error) {
	p := parameters[timeoutKey]
	if p == nil {
		return 0, nil
	}
	us := int64(-1)
	switch v := p.GetParameterChoice().(type) {
	case *pb.InferParameter_Int64Param:
		us = v.Int64Param
	case *pb.InferParameter_Uint64Param:
		us = int64(min(v.Uint64Param, math.MaxInt64))
	}
	if us < 0 {
		return 0, invalid("the parameter timeout must be a whole number of microseconds")
	}
	return microseconds(us), nil
}

func microseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/1000)) * time.Microsecond
}

// message is a tensor of a request or an answer.
type message interface {
	GetName() string
	GetDatatype() string
	GetShape() []int64
	GetContents() *pb.InferTensorContents
}

// tensor reads one; kind is "input" or "output", for errors.
func tensor(kind string, i int, m message, data []byte, raw bool) (wire.NamedTensor, error) {
	t := wire.NamedTensor{Name: m.GetName(), Tensor: wire.Tensor{Datatype: m.GetDatatype(), Shape: m.GetShape(), Data: data}}
	switch {
	case t.Name == "":
		return t, invalid("%s %d has no name", kind, i+1)
	case wire.Size(t.Datatype) < 0:
		return t, invalid("%s %q has the unknown datatype %q", kind, t.Name, t.Datatype)
	case raw && !empty(m.GetContents()):
		return t, invalid("%s %q has both contents and raw contents", kind, t.Name)
	}
	if t.Shape == nil {
		t.Shape = []int64{}
	}
	if !raw {
		var err error
		if t.Data, err = packed(t.Datatype, m.GetContents()); err != nil {
			return t, invalid("%s %q: %s", kind, t.Name, reason(err))
		}
	}
	if err := t.Validate(); err != nil {
		return t, invalid("%s %q: %s", kind, t.Name, reason(err))
	}
	return t, nil
}

// EncodeRequest writes a request with raw tensors. A timeout of 0 means none.
func EncodeRequest(q *wire.InferRequest, version string, timeout time.Duration) *pb.ModelInferRequest {
	m := &pb.ModelInferRequest{
		ModelName: q.Pipeline, ModelVersion: version, Id: q.ID,
		Inputs: make([]*pb.ModelInferRequest_InferInputTensor, len(q.Inputs)), RawInputContents: make([][]byte, len(q.Inputs)),
	}
	for i := range q.Inputs {
		t := &q.Inputs[i]
		m.Inputs[i] = &pb.ModelInferRequest_InferInputTensor{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape}
		m.RawInputContents[i] = t.Data
	}
	for _, name := range q.Outputs {
		m.Outputs = append(m.Outputs, &pb.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	if timeout > 0 {
		m.Parameters = map[string]*pb.InferParameter{timeoutKey: number(max(timeout.Microseconds(), 1))}
	}
	return m
}

func number(n int64) *pb.InferParameter {
	return &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: n}}
}

// answer is a message with its first output, made in one piece.
type answer struct {
	message pb.ModelInferResponse
	first   pb.ModelInferResponse_InferOutputTensor
	outputs [1]*pb.ModelInferResponse_InferOutputTensor
	raw     [1][]byte
}

// EncodeResponse writes an answer, raw unless all outputs have lists and raw is
// not asked for. Its parameters are there once it has been sent.
func EncodeResponse(r *wire.InferResponse, raw bool) (*pb.ModelInferResponse, error) {
	a := new(answer)
	m := &a.message
	m.ModelName, m.ModelVersion, m.Id = r.Pipeline, strconv.Itoa(r.Generation), r.ID
	m.Outputs = a.outputs[:0]
	m.ProtoReflect().SetUnknown(appendParameters(nil, r))
	for i := range r.Outputs {
		t, out := &r.Outputs[i], &a.first
		if i > 0 {
			out = new(pb.ModelInferResponse_InferOutputTensor)
		}
		out.Name, out.Datatype, out.Shape = t.Name, t.Datatype, t.Shape
		m.Outputs = append(m.Outputs, out)
		raw = raw || !listed(t.Datatype)
	}
	if raw {
		m.RawOutputContents = a.raw[:0]
	}
	for i := range r.Outputs {
		if raw {
			m.RawOutputContents = append(m.RawOutputContents, r.Outputs[i].Data)
			continue
		}
		var err error
		if m.Outputs[i].Contents, err = unpacked(&r.Outputs[i].Tensor); err != nil {
			return nil, wire.Errorf(wire.CodeInternal, "", "output %q: %s", r.Outputs[i].Name, reason(err))
		}
	}
	return m, nil
}

// DecodeResponse reads an answer of any server. The error is a *wire.Error of
// code "invalid".
func DecodeResponse(m *pb.ModelInferResponse) (*wire.InferResponse, error) {
	r := &wire.InferResponse{
		ID: m.GetId(), Pipeline: m.GetModelName(), Outputs: make([]wire.NamedTensor, len(m.GetOutputs())),
		Elapsed: time.Duration(m.GetParameters()[elapsedTime].GetInt64Param()),
	}
	r.Generation, _ = strconv.Atoi(m.GetModelVersion()) // other servers' versions need not be numbers
	raw := m.GetRawOutputContents()
	if len(raw) > 0 && len(raw) != len(m.GetOutputs()) {
		return nil, invalid("there are %d outputs and %d raw_output_contents", len(m.GetOutputs()), len(raw))
	}
	var err error
	for i, out := range m.GetOutputs() {
		var data []byte
		if len(raw) > 0 {
			data = raw[i]
		}
		if r.Outputs[i], err = tensor("output", i, out, data, len(raw) > 0); err != nil {
			return nil, err
		}
	}
	r.Stages, err = oip.DecodeStages([]byte(m.GetParameters()[stagesKey].GetStringParam()))
	return r, err
}

// EncodeMetadata writes what is told of a pipeline.
func EncodeMetadata(m *wire.Metadata) *pb.ModelMetadataResponse {
	return &pb.ModelMetadataResponse{
		Name: m.Pipeline, Versions: []string{strconv.Itoa(m.Generation)}, Platform: cmp.Or(m.Platform, oip.Platform),
		Inputs: encodePorts(m.Inputs), Outputs: encodePorts(m.Outputs),
	}
}

// decodeMetadata reads what any server tells of a model. Whether it is ready is
// another question.
func decodeMetadata(m *pb.ModelMetadataResponse) *wire.Metadata {
	out := &wire.Metadata{Pipeline: m.GetName(), Platform: m.GetPlatform(), Inputs: decodePorts(m.GetInputs()), Outputs: decodePorts(m.GetOutputs())}
	if n := len(m.GetVersions()); n > 0 {
		out.Generation, _ = strconv.Atoi(m.GetVersions()[n-1]) // other servers' versions need not be numbers
	}
	return out
}

// Keys of what the protocol's message has no place for, sent as headers.
const (
	sloKey   = "harpagon-slo-ns"
	readyKey = "harpagon-ready"
)

// EncodeMore is what of a model its message does not tell.
func EncodeMore(m *wire.Metadata) metadata.MD {
	return metadata.Pairs(sloKey, strconv.FormatInt(int64(m.SLO), 10), readyKey, strconv.FormatBool(m.Ready))
}

// decodeMore adds what EncodeMore has told, if it has.
func decodeMore(m *wire.Metadata, more metadata.MD) {
	for _, v := range more.Get(sloKey) {
		n, _ := strconv.ParseInt(v, 10, 64)
		m.SLO = time.Duration(n)
	}
	for _, v := range more.Get(readyKey) {
		m.Ready, _ = strconv.ParseBool(v)
	}
}

func encodePorts(ports []pipelines.Port) []*pb.ModelMetadataResponse_TensorMetadata {
	out := make([]*pb.ModelMetadataResponse_TensorMetadata, len(ports))
	for i, p := range ports {
		out[i] = &pb.ModelMetadataResponse_TensorMetadata{Name: p.Name, Datatype: p.Datatype, Shape: p.Shape}
	}
	return out
}

func decodePorts(ports []*pb.ModelMetadataResponse_TensorMetadata) []pipelines.Port {
	out := make([]pipelines.Port, len(ports))
	for i, p := range ports {
		out[i] = pipelines.Port{Name: p.GetName(), Datatype: p.GetDatatype(), Shape: p.GetShape()}
	}
	return out
}
