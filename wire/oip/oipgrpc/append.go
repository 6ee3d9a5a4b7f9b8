package oipgrpc

import (
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire"
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
