package oipgrpc

import (
	"encoding/base64"

	"google.golang.org/genproto/googleapis/rpc/status"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

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
