package oipgrpc

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// Names of parameters.
const (
	timeoutKey  = oip.TimeoutKey
	elapsedTime = "elapsed_ns"
	shiftKey    = "stream_shift_ns"
	stagesKey   = "stages"
)

// Call is a decoded inference request with what else it asks for.
type Call struct {
	Request wire.InferRequest
	Version string         // asked for; empty for any
	Timeout time.Duration  // 0 when none is asked for
	Raw     bool           // the tensors came raw, so the answer's go raw
	Number  int64          // by a stream; 0 for none
	Cancel  int64          // by a stream: the number of a request that this, which is none, takes back
	Classes map[string]int // by name of an output, how many classes are wanted in its place (see oip.Classify)

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
// that reports where the request is wrong. Whether the tensors' shapes and data
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
	if c.Request.Frame, err = frameOf(m.GetParameters()); err != nil {
		return err
	}
	if err := onlyKnown(m.GetParameters(), "the request", timeoutKey, numberKey, cancelKey, wire.SequenceID, wire.SequenceStart, wire.SequenceEnd, wire.StreamKind); err != nil {
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
		if err := onlyKnown(in.GetParameters(), fmt.Sprintf("input %q", in.GetName())); err != nil {
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
		if err := onlyKnown(out.GetParameters(), fmt.Sprintf("output %q", out.GetName()), oip.ClassificationKey); err != nil {
			return err
		}
		if p := out.GetParameters()[oip.ClassificationKey]; p != nil {
			n, whole := p.GetParameterChoice().(*pb.InferParameter_Int64Param)
			if !whole {
				n = &pb.InferParameter_Int64Param{Int64Param: -1}
			}
			if c.Classes, err = oip.Want(c.Classes, out.GetName(), n.Int64Param); err != nil {
				return err
			}
		}
	}
	return nil
}

// onlyKnown refuses parameters that nothing here heeds.
func onlyKnown(given map[string]*pb.InferParameter, where string, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			return oip.UnknownParameter(name, where, known...)
		}
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

// frameOf reads which stream a request is a frame of.
func frameOf(parameters map[string]*pb.InferParameter) (f wire.Frame, err error) {
	if id := parameters[wire.SequenceID]; id != nil {
		switch v := id.GetParameterChoice().(type) {
		case *pb.InferParameter_StringParam:
			f.Stream = v.StringParam
		case *pb.InferParameter_Int64Param:
			f.Stream = wire.NumberedStream(uint64(v.Int64Param))
		case *pb.InferParameter_Uint64Param:
			f.Stream = wire.NumberedStream(v.Uint64Param)
		default:
			return f, invalid("the parameter %s must be a text or a whole number", wire.SequenceID)
		}
	}
	if kind := parameters[wire.StreamKind]; kind != nil {
		if _, is := kind.GetParameterChoice().(*pb.InferParameter_StringParam); !is {
			return f, invalid("the parameter %s must be a text", wire.StreamKind)
		}
		f.Kind = kind.GetStringParam()
	}
	for name, flag := range map[string]*bool{wire.SequenceStart: &f.First, wire.SequenceEnd: &f.Last} {
		if p := parameters[name]; p != nil {
			if _, is := p.GetParameterChoice().(*pb.InferParameter_BoolParam); !is {
				return f, invalid("the parameter %s must be true or false", name)
			}
			*flag = p.GetBoolParam()
		}
	}
	if wrong := f.Check(); wrong != nil {
		return f, wrong
	}
	return f, nil
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
	if timeout > 0 || !q.Frame.IsZero() {
		m.Parameters = map[string]*pb.InferParameter{}
	}
	if timeout > 0 {
		m.Parameters[timeoutKey] = number(max(timeout.Microseconds(), 1))
	}
	if kind := q.Frame.Kind; kind != "" {
		m.Parameters[wire.StreamKind] = &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: kind}}
	}
	if f := q.Frame; f.Stream != "" {
		m.Parameters[wire.SequenceID] = &pb.InferParameter{ParameterChoice: &pb.InferParameter_StringParam{StringParam: f.Stream}}
		for key, is := range map[string]bool{wire.SequenceStart: f.First, wire.SequenceEnd: f.Last} {
			if is {
				m.Parameters[key] = &pb.InferParameter{ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}}
			}
		}
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
		Elapsed: time.Duration(m.GetParameters()[elapsedTime].GetInt64Param()), Fresh: m.GetParameters()[wire.SequenceFresh].GetBoolParam(),
		Shift: time.Duration(m.GetParameters()[shiftKey].GetInt64Param()),
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

// EncodeConfig writes the configuration of a pipeline as a model.
func EncodeConfig(m *wire.Metadata) *pb.ModelConfigResponse {
	c := &modelconfig.ModelConfig{
		Name: m.Pipeline, Platform: cmp.Or(m.Platform, oip.Platform), Backend: oip.Backend,
		VersionPolicy: &modelconfig.ModelVersionPolicy{PolicyChoice: &modelconfig.ModelVersionPolicy_Latest_{Latest: &modelconfig.ModelVersionPolicy_Latest{NumVersions: 1}}},
	}
	for _, p := range m.Inputs {
		c.Input = append(c.Input, &modelconfig.ModelInput{Name: p.Name, DataType: configDatatype(p.Datatype), Dims: p.Shape})
	}
	for _, p := range m.Outputs {
		c.Output = append(c.Output, &modelconfig.ModelOutput{Name: p.Name, DataType: configDatatype(p.Datatype), Dims: p.Shape})
	}
	return &pb.ModelConfigResponse{Config: c}
}

func configDatatype(datatype string) modelconfig.DataType {
	return modelconfig.DataType(modelconfig.DataType_value[oip.ConfigDatatype(datatype)])
}

// decodeMetadata reads what any server reports of a model. Whether it is ready is
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
	rateKey  = "harpagon-rate"
	readyKey = "harpagon-ready"
)

// EncodeMore is what of a model its message does not tell.
func EncodeMore(m *wire.Metadata) metadata.MD {
	return metadata.Pairs(sloKey, strconv.FormatInt(int64(m.SLO), 10), rateKey, strconv.FormatFloat(m.Rate, 'g', -1, 64), readyKey, strconv.FormatBool(m.Ready))
}

// decodeMore adds what EncodeMore has told, if it has.
func decodeMore(m *wire.Metadata, more metadata.MD) {
	for _, v := range more.Get(sloKey) {
		n, _ := strconv.ParseInt(v, 10, 64)
		m.SLO = time.Duration(n)
	}
	for _, v := range more.Get(rateKey) {
		m.Rate, _ = strconv.ParseFloat(v, 64)
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

// reason is the text of an error without the prefix that says where it is from.
func reason(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return strings.TrimPrefix(err.Error(), "wire: ")
}

// listed reports whether the datatype has a list of its own.
func listed(datatype string) bool { return datatype != wire.FP16 && datatype != wire.BF16 }

// empty reports that no list holds anything.
func empty(c *pb.InferTensorContents) bool {
	return len(c.GetBoolContents()) == 0 && len(c.GetIntContents()) == 0 && len(c.GetInt64Contents()) == 0 &&
		len(c.GetUintContents()) == 0 && len(c.GetUint64Contents()) == 0 && len(c.GetFp32Contents()) == 0 &&
		len(c.GetFp64Contents()) == 0 && len(c.GetBytesContents()) == 0
}

// packed makes raw data of the list that goes with the datatype. Elements in
// another list are missed by the shape, which then asks for more.
func packed(datatype string, c *pb.InferTensorContents) ([]byte, error) {
	switch datatype {
	case wire.Bool:
		out := make([]byte, len(c.GetBoolContents()))
		for i, v := range c.GetBoolContents() {
			if v {
				out[i] = 1
			}
		}
		return out, nil
	case wire.Int8, wire.Int16, wire.Int32:
		return narrow(datatype, c.GetIntContents(), func(v int32, bits int) bool { return v<<(32-bits)>>(32-bits) == v })
	case wire.Uint8, wire.Uint16, wire.Uint32:
		return narrow(datatype, c.GetUintContents(), func(v uint32, bits int) bool { return v<<(32-bits)>>(32-bits) == v })
	case wire.Int64:
		return wire.FromInt64(c.GetInt64Contents()).Data, nil
	case wire.Uint64:
		out := make([]byte, 0, 8*len(c.GetUint64Contents()))
		for _, v := range c.GetUint64Contents() {
			out = binary.LittleEndian.AppendUint64(out, v)
		}
		return out, nil
	case wire.FP32:
		return wire.FromFloat32(c.GetFp32Contents()).Data, nil
	case wire.FP64:
		return wire.FromFloat64(c.GetFp64Contents()).Data, nil
	case wire.Bytes:
		var out []byte
		for _, v := range c.GetBytesContents() {
			out = append(binary.LittleEndian.AppendUint32(out, uint32(len(v))), v...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has no typed contents; send it raw", datatype)
}

// narrow writes numbers of 32 bits in as many as the datatype has.
func narrow[T int32 | uint32](datatype string, list []T, fits func(v T, bits int) bool) ([]byte, error) {
	size := wire.Size(datatype)
	out := make([]byte, 0, size*len(list))
	for _, v := range list {
		if !fits(v, 8*size) {
			return nil, fmt.Errorf("%d is not a value of %s", v, datatype)
		}
		for i := range size {
			out = append(out, byte(v>>(8*i)))
		}
	}
	return out, nil
}

// unpacked makes the list of a sound tensor.
func unpacked(t *wire.Tensor) (*pb.InferTensorContents, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	c := &pb.InferTensorContents{}
	size := wire.Size(t.Datatype)
	for rest := t.Data; len(rest) > 0; {
		if t.Datatype == wire.Bytes {
			size = 4 + int(binary.LittleEndian.Uint32(rest))
		}
		unpack(c, t.Datatype, rest[:size])
		rest = rest[size:]
	}
	return c, nil
}

func unpack(c *pb.InferTensorContents, datatype string, raw []byte) {
	switch datatype {
	case wire.Bool:
		c.BoolContents = append(c.BoolContents, raw[0] != 0)
	case wire.Int8:
		c.IntContents = append(c.IntContents, int32(int8(raw[0])))
	case wire.Int16:
		c.IntContents = append(c.IntContents, int32(int16(binary.LittleEndian.Uint16(raw))))
	case wire.Int32:
		c.IntContents = append(c.IntContents, int32(binary.LittleEndian.Uint32(raw)))
	case wire.Int64:
		c.Int64Contents = append(c.Int64Contents, int64(binary.LittleEndian.Uint64(raw)))
	case wire.Uint8:
		c.UintContents = append(c.UintContents, uint32(raw[0]))
	case wire.Uint16:
		c.UintContents = append(c.UintContents, uint32(binary.LittleEndian.Uint16(raw)))
	case wire.Uint32:
		c.UintContents = append(c.UintContents, binary.LittleEndian.Uint32(raw))
	case wire.Uint64:
		c.Uint64Contents = append(c.Uint64Contents, binary.LittleEndian.Uint64(raw))
	case wire.FP32:
		c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case wire.FP64:
		c.Fp64Contents = append(c.Fp64Contents, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	case wire.Bytes:
		c.BytesContents = append(c.BytesContents, raw[4:])
	}
}

// domain marks the details of an error as ours.
const domain = "harpagon"

// Keys of the details.
const (
	stageKey    = "stage"
	reasonKey   = "reason"
	budgetKey   = "budget_ns"
	elapsedKey  = "elapsed_ns"
	startingKey = "starting"
	causeKey    = "cause"
)

// EncodeError makes the status that a server answers with.
func EncodeError(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return status.Error(codes.DeadlineExceeded, err.Error())
		case errors.Is(err, context.Canceled):
			return status.Error(codes.Canceled, err.Error())
		}
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	s := status.New(codes.Code(oip.GRPC(e.Code)), text(e.Error()))
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: domain, Metadata: map[string]string{reasonKey: text(e.Reason)}}
	if e.Stage != "" {
		info.Metadata[stageKey] = text(e.Stage)
	}
	if e.Budget != 0 || e.Elapsed != 0 {
		info.Metadata[budgetKey] = strconv.FormatInt(int64(e.Budget), 10)
		info.Metadata[elapsedKey] = strconv.FormatInt(int64(e.Elapsed), 10)
	}
	if e.Starting {
		info.Metadata[startingKey] = strconv.FormatBool(true)
	}
	if e.Cause != "" {
		info.Metadata[causeKey] = string(e.Cause)
	}
	if detailed, err := s.WithDetails(info); err == nil {
		s = detailed
	}
	return s.Err()
}

// text is a text as messages may have it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// DecodeError makes the typed error whole again. A status without our details
// gets the code nearest to its own and its message as the reason.
func DecodeError(err error) *wire.Error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		e := &wire.Error{Code: wire.Code(info.GetReason()), Reason: info.GetMetadata()[reasonKey], Stage: info.GetMetadata()[stageKey]}
		e.Budget, e.Elapsed = nanoseconds(info, budgetKey), nanoseconds(info, elapsedKey)
		e.Starting, e.Cause = info.GetMetadata()[startingKey] != "", wire.Cause(info.GetMetadata()[causeKey])
		return e
	}
	return &wire.Error{Code: oip.OfGRPC(uint32(s.Code())), Reason: s.Message()}
}

func nanoseconds(info *errdetails.ErrorInfo, key string) time.Duration {
	n, _ := strconv.ParseInt(info.GetMetadata()[key], 10, 64) // 0 where it is missing
	return time.Duration(n)
}
