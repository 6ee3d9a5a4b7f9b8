package oipgrpc

import (
	"encoding/base64"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// Codec is that of gRPC, which besides reads the message of a request of inference into a
// *Call. What is wrong with a request that is a message is an error of the call.
type Codec struct{ encoding.CodecV2 }

// NewCodec makes one.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(encodingproto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	call, ok := v.(*Call)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize() // the tensors lead to it
	if !call.plain(b) {
		*call = Call{}
		m := new(pb.ModelInferRequest)
		if err := proto.Unmarshal(b, m); err != nil {
			return err
		}
		call.Err = call.decode(m)
	}
	call.Size = len(b)
	return nil
}

// headRoom is what most messages need in bytes beside the data of their tensors.
const headRoom = 512

// codec is that of clients, which besides writes requests of inference and reads their answers,
// and notes what has been sent.
// Its name is empty, so that servers are told of no other than gRPC's.
type codec struct{ encoding.CodecV2 }

// Name implements encoding.CodecV2.
func (codec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	s, ok := v.(*sending)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	s.sent = true // where there is no connection, nobody asks for the message
	var q *question
	switch m := s.message.(type) {
	case *question:
		q = m
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	default:
		return c.CodecV2.Marshal(m)
	}
	var room [headRoom]byte
	m, err := request(room[:0], q.request, q.version, q.timeout, 0)
	if err != nil {
		return nil, err
	}
	size := m.Size()
	if mem.IsBelowBufferPoolingThreshold(size) {
		return mem.BufferSlice{mem.SliceBuffer(m.Append(make([]byte, 0, size)))}, nil
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	*b = m.Append((*b)[:0])
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	var r *reply
	switch m := v.(type) {
	case *reply:
		r = m
	case *streamed:
		return m.read(data.Materialize())
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize() // the tensors lead to it
	if r.answer, _ = readPlain(b); r.answer != nil {
		return nil
	}
	m := new(pb.ModelInferResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	r.answer, r.err = DecodeResponse(m)
	return nil
}

// question is a request of inference on its way to a server, and reply its answer, or what
// is wrong with that.
type (
	question struct {
		request *wire.InferRequest
		version string
		timeout time.Duration
	}
	reply struct {
		answer *wire.InferResponse
		err    error
	}
)

// Message is one that is ready to be sent. It leads to the tensors that it was made of,
// which must not change before it has been appended.
type Message struct {
	head    []byte // all but the data of raw tensors, which follow, each in this field:
	field   protowire.Number
	tensors []wire.NamedTensor
}

// Size is its length in bytes.
func (m *Message) Size() int {
	n := len(m.head)
	for i := range m.tensors {
		n += protowire.SizeTag(m.field) + protowire.SizeBytes(len(m.tensors[i].Data))
	}
	return n
}

// Append adds it to some bytes.
func (m *Message) Append(to []byte) []byte {
	to = append(to, m.head...)
	for i := range m.tensors {
		to = protowire.AppendBytes(protowire.AppendTag(to, m.field, protowire.BytesType), m.tensors[i].Data)
	}
	return to
}

// Answer makes the message of an answer, raw unless all outputs have lists and raw is not
// asked for. What it holds besides data is put into room as far as that goes.
func Answer(room []byte, r *wire.InferResponse, raw bool) (Message, error) {
	for i := range r.Outputs {
		raw = raw || !listed(r.Outputs[i].Datatype)
	}
	if !raw {
		m, err := EncodeResponse(r, false)
		if err != nil {
			return Message{}, err
		}
		head, err := proto.Marshal(m)
		return Message{head: head}, err
	}
	var digits [20]byte
	version := strconv.AppendInt(digits[:0], int64(r.Generation), 10)
	to := appendText(room[:0], modelNameField, r.Pipeline)
	to = protowire.AppendBytes(protowire.AppendTag(to, modelVersionField, protowire.BytesType), version)
	to = appendTensors(appendParameters(appendText(to, idField, r.ID), r), r.Outputs)
	return Message{to, rawOutputField, r.Outputs}, nil
}

var errText = errors.New("a name, a version or an ID is not valid UTF-8")

// request makes the message of a request, like Answer. Its tensors are raw.
// By a stream it has a number of that.
func request(room []byte, q *wire.InferRequest, version string, timeout time.Duration, number int64) (Message, error) {
	sound := utf8.ValidString(q.Pipeline) && utf8.ValidString(version) && utf8.ValidString(q.ID)
	to := appendText(room[:0], modelNameField, q.Pipeline)
	to = appendText(appendText(to, modelVersionField, version), idField, q.ID)
	if number != 0 {
		to = appendNumber(to, numberKey, number)
	}
	if timeout > 0 {
		to = appendNumber(to, timeoutKey, max(timeout.Microseconds(), 1))
	}
	f := &q.Frame
	sound = sound && utf8.ValidString(f.Stream) && utf8.ValidString(f.Kind)
	if f.Kind != "" {
		to = appendTextEntry(to, wire.StreamKind, f.Kind)
	}
	if f.Stream != "" {
		to = appendTextEntry(to, wire.SequenceID, f.Stream)
		to = appendFlag(appendFlag(to, wire.SequenceStart, f.First), wire.SequenceEnd, f.Last)
	}
	to = appendTensors(to, q.Inputs)
	for i := range q.Inputs {
		sound = sound && utf8.ValidString(q.Inputs[i].Name) && utf8.ValidString(q.Inputs[i].Datatype)
	}
	for _, name := range q.Outputs {
		to = protowire.AppendVarint(protowire.AppendTag(to, wantedField, protowire.BytesType), uint64(sizeText(tensorNameField, name)))
		to = appendText(to, tensorNameField, name)
		sound = sound && utf8.ValidString(name)
	}
	if !sound {
		return Message{}, errText
	}
	return Message{to, rawInputField, q.Inputs}, nil
}

// appendTensors adds inputs or outputs without their data.
func appendTensors(to []byte, all []wire.NamedTensor) []byte {
	for i := range all {
		t := &all[i]
		shape := 0
		for _, d := range t.Shape {
			shape += protowire.SizeVarint(uint64(d))
		}
		size := sizeText(tensorNameField, t.Name) + sizeText(datatypeField, t.Datatype)
		if shape > 0 {
			size += protowire.SizeTag(shapeField) + protowire.SizeBytes(shape)
		}
		to = protowire.AppendVarint(protowire.AppendTag(to, tensorsField, protowire.BytesType), uint64(size))
		to = appendText(appendText(to, tensorNameField, t.Name), datatypeField, t.Datatype)
		if shape == 0 {
			continue
		}
		to = protowire.AppendVarint(protowire.AppendTag(to, shapeField, protowire.BytesType), uint64(shape))
		for _, d := range t.Shape {
			to = protowire.AppendVarint(to, uint64(d))
		}
	}
	return to
}

// appendText adds a text, which is left out where it is empty.
func appendText(to []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), text)
}

func sizeText(field protowire.Number, text string) int {
	if text == "" {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(text))
}

// Numbers of fields: parameters of a ModelInferResponse, key and value of their entries,
// and what a value may be.
const (
	parametersField = 4
	keyField        = 1
	valueField      = 2
	boolField       = 1
	int64Field      = 2
	stringField     = 3
)

// appendParameters adds what else an answer says, beside the generation, which is the
// model's version. Clients that know nothing of it go through maps by reflection when they
// read them, which takes long for each.
func appendParameters(to []byte, r *wire.InferResponse) []byte {
	to = appendFlag(appendNumber(to, elapsedTime, int64(r.Elapsed)), wire.SequenceFresh, r.Fresh)
	if r.Shift != 0 {
		to = appendNumber(to, shiftKey, int64(r.Shift))
	}
	if len(r.Stages) == 0 {
		return to
	}
	var room [512]byte
	stages := oip.AppendStages(room[:0], r.Stages)
	to = appendEntry(to, stagesKey, protowire.SizeTag(stringField)+protowire.SizeBytes(len(stages)))
	return protowire.AppendBytes(protowire.AppendTag(to, stringField, protowire.BytesType), stages)
}

func appendNumber(to []byte, key string, n int64) []byte {
	to = appendEntry(to, key, protowire.SizeTag(int64Field)+protowire.SizeVarint(uint64(n)))
	return protowire.AppendVarint(protowire.AppendTag(to, int64Field, protowire.VarintType), uint64(n))
}

// appendFlag adds what is true.
func appendFlag(to []byte, key string, is bool) []byte {
	if !is {
		return to
	}
	to = appendEntry(to, key, protowire.SizeTag(boolField)+protowire.SizeVarint(1))
	return protowire.AppendVarint(protowire.AppendTag(to, boolField, protowire.VarintType), 1)
}

// appendEntry begins an entry, whose value of so many bytes must follow.
func appendEntry(to []byte, key string, value int) []byte {
	size := protowire.SizeTag(keyField) + protowire.SizeBytes(len(key)) + protowire.SizeTag(valueField) + protowire.SizeBytes(value)
	to = protowire.AppendVarint(protowire.AppendTag(to, parametersField, protowire.BytesType), uint64(size))
	to = protowire.AppendString(protowire.AppendTag(to, keyField, protowire.BytesType), key)
	return protowire.AppendVarint(protowire.AppendTag(to, valueField, protowire.BytesType), uint64(value))
}

// appendTextEntry adds a parameter that is a text.
func appendTextEntry(to []byte, key, value string) []byte {
	to = appendEntry(to, key, protowire.SizeTag(stringField)+protowire.SizeBytes(len(value)))
	return protowire.AppendString(protowire.AppendTag(to, stringField, protowire.BytesType), value)
}

// entry is the key of an entry and the message that is its value; ok is false where it is
// not as appendEntry makes it.
func entry(b []byte) (key, value []byte, ok bool) {
	first, key, rest, ok := next(b)
	second, value, rest, sound := next(rest)
	return key, value, ok && sound && first == keyField && second == valueField && len(rest) == 0
}

// integer is the value of an entry that appendNumber makes.
func integer(value []byte) (n int64, ok bool) {
	field, kind, size := protowire.ConsumeTag(value)
	if size < 0 || field != int64Field || kind != protowire.VarintType {
		return 0, false
	}
	v, rest := protowire.ConsumeVarint(value[size:])
	return int64(v), rest == len(value)-size
}

// flag reads what appendFlag has written.
func flag(value []byte) (is, ok bool) {
	field, kind, size := protowire.ConsumeTag(value)
	if size < 0 || field != boolField || kind != protowire.VarintType {
		return false, false
	}
	v, rest := protowire.ConsumeVarint(value[size:])
	return v == 1, rest == len(value)-size
}

// Numbers of the fields of what comes back by a stream.
const (
	streamErrorField  = 1
	streamAnswerField = 2
)

// Parameters beyond the protocol. A request by a stream may have a number, which its answer then has
// as well, and which takes it back as the parameter cancelKey of a message that is no request and
// gets no answer. statusKey of an answer is the status that ModelInfer would have failed with, a
// google.rpc.Status in base64.
const (
	numberKey = "number"
	cancelKey = "cancel"
	statusKey = "status"
)

// InStream is the message of an answer as it goes by a stream, with the number that its request
// had. What it holds besides data is put into room as far as that goes.
func (m Message) InStream(room []byte, number int64) Message {
	var entry []byte
	if number != 0 {
		var digits [32]byte
		entry = appendNumber(digits[:0], numberKey, number)
	}
	to := protowire.AppendVarint(protowire.AppendTag(room[:0], streamAnswerField, protowire.BytesType), uint64(len(entry)+m.Size()))
	m.head = append(append(to, entry...), m.head...)
	return m
}

// Failure is the message of a request by a stream that failed.
func Failure(c *Call, err error) []byte {
	s, ok := grpcstatus.FromError(err)
	if !ok {
		s = grpcstatus.Convert(EncodeError(err))
	}
	inner := appendText(nil, idField, c.Request.ID)
	if c.Number != 0 {
		inner = appendNumber(inner, numberKey, c.Number)
	}
	if whole, err := proto.Marshal(s.Proto()); err == nil { // else the text must do
		coded := base64.StdEncoding.EncodeToString(whole)
		inner = appendEntry(inner, statusKey, protowire.SizeTag(stringField)+protowire.SizeBytes(len(coded)))
		inner = protowire.AppendString(protowire.AppendTag(inner, stringField, protowire.BytesType), coded)
	}
	to := appendText(nil, streamErrorField, text(s.Message()))
	return protowire.AppendBytes(protowire.AppendTag(to, streamAnswerField, protowire.BytesType), inner)
}

// streamed is what has come back by a stream: an answer, or the status of a request that
// failed, or what is wrong with the answer.
type streamed struct {
	number int64
	answer *wire.InferResponse
	status error
	err    error
}

// read reads the message, to which the answer leads.
func (r *streamed) read(b []byte) error {
	var text, inner []byte
	for rest := b; len(rest) > 0; {
		field, value, after, ok := next(rest)
		if rest = after; !ok {
			return r.slow(b)
		}
		switch field {
		case streamErrorField:
			text = value
		case streamAnswerField:
			inner = value
		default:
			return r.slow(b)
		}
	}
	if len(text) > 0 || inner == nil {
		return r.slow(b)
	}
	if r.answer, r.number = readPlain(inner); r.answer == nil {
		return r.slow(b)
	}
	return nil
}

// slow has the library read it.
func (r *streamed) slow(b []byte) error {
	m := new(pb.ModelStreamInferResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	inner := m.GetInferResponse()
	r.number = inner.GetParameters()[numberKey].GetInt64Param()
	if text := m.GetErrorMessage(); text != "" || inner.GetParameters()[statusKey] != nil {
		r.status = statusOf(text, inner.GetParameters()[statusKey].GetStringParam())
		return nil
	}
	r.answer, r.err = DecodeResponse(inner)
	return nil
}

// statusOf is the status of a request that failed, which only this project's servers send whole.
func statusOf(text, whole string) error {
	raw, err := base64.StdEncoding.DecodeString(whole)
	s := new(status.Status)
	if err != nil || len(raw) == 0 || proto.Unmarshal(raw, s) != nil || s.GetCode() == 0 {
		return EncodeError(wire.Errorf(wire.CodeInternal, "", "%s", text))
	}
	return grpcstatus.ErrorProto(s)
}

// cancellation is the message that takes a request back.
func cancellation(number int64) []byte { return appendNumber(nil, cancelKey, number) }
