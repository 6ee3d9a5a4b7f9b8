package oipgrpc

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Requests and answers are read from their bytes where they are as most programs write
// them: raw tensors, and none of the fields that few use. The library, which makes a
// struct of every message and goes through maps by reflection, reads what is otherwise, and
// all that is wrong. Where plain reading succeeds, it has read what the library would have,
// which the tests hold.
//
// Generated code that lets tensors lie where they are (vtprotobuf), for reading and writing,
// allocates those structs, too: 108 pieces instead of 50 for a small request and its answer by
// shared streams, which cost 1.47 times the processor time (54 µs instead of 37, client and gateway
// together, BenchmarkThroughput/client of gateway/grpcapi). A call of its own costs 1.07 times.

// Numbers of the fields of requests and answers, and of their tensors.
const (
	modelNameField    = 1
	modelVersionField = 2
	idField           = 3
	tensorsField      = 5 // inputs of a request, outputs of an answer
	wantedField       = 6 // outputs that a request asks for
	rawInputField     = 7
	rawOutputField    = 6

	tensorNameField = 1
	datatypeField   = 2
	shapeField      = 3
)

// next takes a field whose value has a length; ok is false where another comes, or none
// that is sound.
func next(b []byte) (field protowire.Number, value, rest []byte, ok bool) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || kind != protowire.BytesType {
		return 0, nil, nil, false
	}
	value, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return 0, nil, nil, false
	}
	return field, value[:len(value):len(value)], b[n+m:], true
}

// plain is what requests and answers have in common. What it reads leads to the bytes of
// the message.
type plain struct {
	model, version, id []byte
	tensors            []wire.NamedTensor
	data               int // how many of the tensors have it
	shapes             []int64
}

// take takes a field of requests or of answers, whose data are in that field; false where
// it is none that both have, or is not plain.
func (p *plain) take(field, data protowire.Number, value []byte) bool {
	switch field {
	case modelNameField:
		p.model = value
	case modelVersionField:
		p.version = value
	case idField:
		p.id = value
	case tensorsField:
		return p.tensor(value)
	case data:
		if p.data == len(p.tensors) {
			return false // data come behind all tensors, and not for more
		}
		p.tensors[p.data].Data = value
		p.data++
		return true
	default:
		return false
	}
	return utf8.Valid(value)
}

// tensor takes a tensor without its data.
func (p *plain) tensor(b []byte) bool {
	var t wire.NamedTensor
	first := len(p.shapes)
	for len(b) > 0 {
		field, value, rest, ok := next(b)
		if b = rest; !ok {
			return false
		}
		switch field {
		case tensorNameField:
			if t.Name = string(value); !utf8.Valid(value) {
				return false
			}
		case datatypeField:
			if t.Datatype = datatype(value); t.Datatype == "" {
				return false
			}
		case shapeField:
			for len(value) > 0 {
				d, n := protowire.ConsumeVarint(value)
				if n < 0 {
					return false
				}
				p.shapes, value = append(p.shapes, int64(d)), value[n:]
			}
		default:
			return false
		}
	}
	t.Shape = p.shapes[first:len(p.shapes):len(p.shapes)]
	p.tensors = append(p.tensors, t)
	return t.Name != ""
}

// whole reports whether all tensors have data that agree with their shapes.
func (p *plain) whole() bool {
	for i := range p.tensors {
		if p.tensors[i].Validate() != nil {
			return false
		}
	}
	return p.data == len(p.tensors)
}

var known = []string{
	wire.FP32, wire.Uint8, wire.Int64, wire.Int32, wire.FP16, wire.BF16, wire.FP64,
	wire.Bytes, wire.Bool, wire.Int8, wire.Int16, wire.Uint16, wire.Uint32, wire.Uint64,
}

// datatype is that of the name; empty where there is none.
func datatype(name []byte) string {
	for _, d := range known {
		if string(name) == d {
			return d
		}
	}
	return ""
}

// plain reads a request, which leads to the bytes; false where it is not plain, and c is
// worth nothing then.
func (c *Call) plain(b []byte) bool {
	p := plain{tensors: c.one[:0], shapes: c.shapes[:0]}
	for len(b) > 0 {
		field, value, rest, ok := next(b)
		if b = rest; !ok {
			return false
		}
		switch field {
		case wantedField:
			ok = c.want(value)
		case parametersField:
			ok = c.parameter(value)
		default:
			ok = p.take(field, rawInputField, value)
		}
		if !ok {
			return false
		}
	}
	c.Raw, c.Version = true, string(p.version)
	c.Request.Pipeline, c.Request.ID, c.Request.Inputs = string(p.model), string(p.id), p.tensors
	return p.whole()
}

// want takes an output that is asked for.
func (c *Call) want(b []byte) bool {
	field, name, rest, ok := next(b)
	if !ok || field != tensorNameField || len(rest) > 0 || len(name) == 0 || !utf8.Valid(name) || slices.Contains(c.Request.Outputs, string(name)) {
		return false
	}
	c.Request.Outputs = append(c.Request.Outputs, string(name))
	return true
}

// parameter takes one of the parameters that requests have.
func (c *Call) parameter(b []byte) bool {
	key, value, ok := entry(b)
	n, sound := integer(value)
	if !ok || !sound || n < 0 {
		return false
	}
	switch string(key) {
	case timeoutKey:
		c.Timeout = microseconds(n)
	case numberKey:
		c.Number = n
	case cancelKey:
		c.Cancel = n
	default:
		return false
	}
	return true
}

// plainAnswer is an answer with room for what most have, made in one piece.
type plainAnswer struct {
	answer wire.InferResponse
	number int64
	one    [1]wire.NamedTensor
	shapes [4]int64
}

// readPlain reads an answer, which leads to the bytes, and its number; nil where it is not plain.
func readPlain(b []byte) (*wire.InferResponse, int64) {
	a := new(plainAnswer)
	p := plain{tensors: a.one[:0], shapes: a.shapes[:0]}
	for len(b) > 0 {
		field, value, rest, ok := next(b)
		if b = rest; !ok {
			return nil, 0
		}
		if field == parametersField {
			ok = a.parameter(value)
		} else {
			ok = p.take(field, rawOutputField, value)
		}
		if !ok {
			return nil, 0
		}
	}
	r := &a.answer
	r.Pipeline, r.ID, r.Outputs = string(p.model), string(p.id), p.tensors
	r.Generation, _ = strconv.Atoi(string(p.version)) // other servers' versions need not be numbers
	if !p.whole() {
		return nil, 0
	}
	return r, a.number
}

// parameter takes one of those that answers have; others' say nothing.
func (a *plainAnswer) parameter(b []byte) bool {
	key, value, ok := entry(b)
	if !ok {
		return false
	}
	switch string(key) {
	case elapsedTime:
		var n int64
		n, ok = integer(value)
		a.answer.Elapsed = time.Duration(n)
	case wire.SequenceFresh:
		a.answer.Fresh, ok = flag(value)
	case shiftKey:
		var n int64
		n, ok = integer(value)
		a.answer.Shift = time.Duration(n)
	case numberKey:
		a.number, ok = integer(value)
	case stagesKey:
		field, text, rest, sound := next(value)
		if !sound || field != stringField || len(rest) > 0 || !utf8.Valid(text) {
			return false
		}
		var err error
		a.answer.Stages, err = oip.DecodeStages(text)
		ok = err == nil
	default:
		return false
	}
	return ok
}
