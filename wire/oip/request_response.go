package oip

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/harpagon/harpagon/wire"
)

// Call is a decoded inference request with what else it asks for.
type Call struct {
	Request wire.InferRequest // without the pipeline's name, which the URL has
	Timeout time.Duration     // 0 when none is asked for
	Binary  bool              // outputs as binary data unless Outputs says otherwise
	Outputs map[string]bool   // by name, where the request says so: as binary data
	Classes map[string]int    // by name of an output, how many classes are wanted in its place (see Classify)

	places map[string]*window // by name of an output: in which memory of the caller it is to lie
}

// AsBinary reports whether the output is wanted as binary data.
func (c *Call) AsBinary(output string) bool {
	if b, ok := c.Outputs[output]; ok {
		return b
	}
	return c.Binary
}

// AsText reports whether the output is wanted as JSON, whose numbers are finite.
func (c *Call) AsText(output string) bool {
	return !c.AsBinary(output) && c.Classes[output] == 0 && c.places[output] == nil
}

// EncodeRequest writes a request with binary tensors in both directions.
// header is the length of the JSON part. A timeout of 0 means none.
func EncodeRequest(q *wire.InferRequest, timeout time.Duration) (body []byte, header int, err error) {
	return encodeRequest(q, timeout, true, new(Places))
}

// EncodeRequestJSON writes a request without binary data, for servers that do
// not know the extension; all of the body is JSON. It fails for datatypes and
// values that JSON cannot carry.
func EncodeRequestJSON(q *wire.InferRequest, timeout time.Duration) ([]byte, error) {
	body, _, err := encodeRequest(q, timeout, false, new(Places))
	return body, err
}

// encodeRequest gives -1 as header where nothing may be binary data.
func encodeRequest(q *wire.InferRequest, timeout time.Duration, binary bool, p *Places) (body []byte, header int, err error) {
	body = appendID(append(room(q.Inputs, 0, func(string) bool { return binary }), '{'), q.ID)
	if timeout > 0 || binary || !q.Frame.IsZero() {
		body = append(body, `"parameters":{`...)
		if binary {
			body = append(body, `"binary_data_output":true,`...)
		}
		if timeout > 0 {
			body = append(strconv.AppendInt(append(body, `"timeout":`...), int64(max(timeout/time.Microsecond, 1)), 10), ',')
		}
		if q.Frame.Kind != "" {
			body = append(appendText(append(body, `"`+wire.StreamKind+`":`...), q.Frame.Kind), ',')
		}
		if f := &q.Frame; f.Stream != "" {
			body = append(appendText(append(body, `"sequence_id":`...), f.Stream), ',')
			for _, flag := range []struct {
				is   bool
				name string
			}{{f.First, `"sequence_start":true,`}, {f.Last, `"sequence_end":true,`}} {
				if flag.is {
					body = append(body, flag.name...)
				}
			}
		}
		body[len(body)-1] = '}'
		body = append(body, ',')
	}
	body = append(body, `"inputs":[`...)
	for i := range q.Inputs {
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = appendTensor(body, &q.Inputs[i], binary, p.input(i)); err != nil {
			return nil, 0, invalid("input %q cannot be sent as JSON: %s", q.Inputs[i].Name, reason(err))
		}
	}
	body = append(body, ']')
	for i, name := range q.Outputs {
		body = append(body, [...]string{`,"outputs":[`, `,`}[min(i, 1)]...)
		body = appendText(append(body, `{"name":`...), name)
		if at := p.output(i); at != nil {
			body = at.append(body)
		}
		body = append(body, '}')
	}
	if len(q.Outputs) > 0 {
		body = append(body, ']')
	}
	body = append(body, '}')
	if !binary {
		return body, -1, nil
	}
	header = len(body)
	for i := 0; i < len(q.Inputs); i++ {
		body = append(body, q.Inputs[i].Data...)
	}
	return body, header, nil
}

// room is memory for a body with these tensors, of which some are binary data, and so
// many stages.
func room(tensors []wire.NamedTensor, stages int, binary func(name string) bool) []byte {
	const head, each = 192, 192
	n := head + each*stages
	for i := range tensors {
		if n += each; binary(tensors[i].Name) {
			n += len(tensors[i].Data)
		}
	}
	return make([]byte, 0, n)
}

// DecodeRequest reads a body whose JSON part is header bytes long; -1 means
// all of it, and no binary data. The error is a *wire.Error of code "invalid"
// that reports where the request is wrong. Whether the tensors' shapes and data
// agree is checked; whether they fit the pipeline is not.
func DecodeRequest(body []byte, header int) (*Call, error) {
	return DecodeRequestIn(body, header, Bounds{})
}

// DecodeRequestIn asks o.Grow before it takes so many bytes more, where tensors do not lie in
// the body already.
func DecodeRequestIn(body []byte, header int, o Bounds) (*Call, error) {
	head, rest, err := cut(body, header)
	if err != nil {
		return nil, err
	}
	j, err := readRequest(head)
	if err != nil {
		var e *wire.Error
		if !errors.As(err, &e) {
			e = invalid("the request is not valid JSON of the protocol: %v", err)
		}
		return nil, e
	}
	c := &Call{Binary: j.Parameters.BinaryOutput}
	if c.Timeout, err = timeout(j.Parameters.Timeout); err != nil {
		return nil, err
	}
	if c.Request.Frame, err = frameOf(&j.Parameters, o.Frame); err != nil {
		return nil, err
	}
	c.Request.ID = j.ID
	if c.Request.Inputs, err = tensors("input", j.Inputs, rest, o.Grow, o.input(int64(len(body)))); err != nil {
		return nil, err
	}
	for _, w := range j.Outputs {
		if w.Name == "" {
			return nil, invalid("an output that is asked for has no name")
		}
		if slices.Contains(c.Request.Outputs, w.Name) {
			return nil, invalid("output %q is asked for twice", w.Name)
		}
		c.Request.Outputs = append(c.Request.Outputs, w.Name)
		if w.Parameters.Binary != nil {
			if c.Outputs == nil {
				c.Outputs = make(map[string]bool)
			}
			c.Outputs[w.Name] = *w.Parameters.Binary
		}
		if n := w.Parameters.Classes; n != nil {
			if c.Classes, err = Want(c.Classes, w.Name, int64(*n)); err != nil {
				return nil, err
			}
		}
		if w.Parameters.Region != "" {
			if err = c.place(w.Name, &w.Parameters.placeParameters, o.Regions); err != nil {
				return nil, invalid("output %q: %s", w.Name, reason(err))
			}
		}
	}
	return c, nil
}

// frameOf reads which stream a request is a frame of, where it names one.
func frameOf(p *requestParameters, by wire.Frame) (wire.Frame, error) {
	f := wire.Frame{Kind: cmp.Or(p.StreamKind, by.Kind), First: p.SequenceStart, Last: p.SequenceEnd}
	switch text := string(p.SequenceID); {
	case text == "" || text == "null":
	case text[0] == '"':
		unquoted, err := jsontext.AppendUnquote(nil, p.SequenceID)
		if err != nil {
			return f, invalid("the parameter %s is no text: %v", wire.SequenceID, err)
		}
		f.Stream = string(unquoted)
	default:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return f, invalid("the parameter %s must be a text or a whole number", wire.SequenceID)
		}
		f.Stream = wire.NumberedStream(n)
	}
	f.Stream = cmp.Or(f.Stream, by.Stream)
	if wrong := f.Check(); wrong != nil {
		return f, wrong
	}
	return f, nil
}

func timeout(n jsontext.Value) (time.Duration, error) {
	if len(n) == 0 || string(n) == "null" {
		return 0, nil
	}
	text := strings.Trim(string(n), `"`)
	us, err := strconv.ParseInt(text, 10, 64)
	if err != nil || us < 0 {
		return 0, invalid("the parameter timeout is %q; it must be a whole number of microseconds", text)
	}
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond, nil
}

// cut separates the JSON part from the binary data.
func cut(body []byte, header int) (head, rest []byte, err error) {
	if header < 0 {
		return body, nil, nil
	}
	if header > len(body) {
		return nil, nil, invalid("%s is %d, but the body has only %d bytes", HeaderLength, header, len(body))
	}
	return body[:header], body[header:], nil
}

// ParseHeaderLength reads the value of the HTTP header; -1 when it is empty.
func ParseHeaderLength(value string) (int, error) {
	if value == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, invalid("the HTTP header %s is %q; it must be the length of the JSON part in bytes", HeaderLength, value)
	}
	return n, nil
}

// regions gives the data of a tensor that lies in a region, by what is said of it.
type regions func(t *wire.NamedTensor, said *tensorParameters) ([]byte, error)

// tensors makes tensors of their JSON and the binary data behind it. kind is
// "input" or "output", for errors.
func tensors(kind string, list []tensorJSON, rest []byte, grow func(n int64) error, in regions) ([]wire.NamedTensor, error) {
	out := make([]wire.NamedTensor, len(list))
	for i := range list {
		j := &list[i]
		t := &out[i]
		t.Name, t.Datatype, t.Shape = j.Name, j.Datatype, j.Shape
		if t.Name == "" {
			return nil, invalid("%s %d has no name", kind, i+1)
		}
		if wire.Size(t.Datatype) < 0 {
			return nil, invalid("%s %q has the unknown datatype %q", kind, t.Name, t.Datatype)
		}
		room := elements(j)
		if grow != nil {
			if err := grow(room); err != nil {
				return nil, err
			}
		}
		var err error
		rest, err = data(t, j, rest, room, in)
		var e *wire.Error
		switch {
		case errors.As(err, new(*statusError)), errors.As(err, &e) && e.Code != wire.CodeInvalid:
			return nil, err
		case err != nil:
			return nil, invalid("%s %q: %s", kind, t.Name, reason(err))
		}
		if err := t.Validate(); err != nil {
			return nil, invalid("%s %q: %s", kind, t.Name, reason(err))
		}
	}
	if len(rest) > 0 {
		return nil, invalid("%d bytes of binary data belong to no %s", len(rest), kind)
	}
	return out, nil
}

// data fills in the tensor's data and returns what is left of the binary part.
func data(t *wire.NamedTensor, j *tensorJSON, rest []byte, room int64, in regions) ([]byte, error) {
	var err error
	size := j.Parameters.BinarySize
	switch {
	case j.Parameters.Region != "" && (size != nil || j.Data != nil):
		return nil, invalid("it has both shared_memory_region and data")
	case j.Parameters.Region != "":
		t.Data, err = in(t, &j.Parameters)
		return rest, err
	case size != nil && j.Data != nil:
		return nil, invalid("it has both data and binary_data_size")
	case size != nil:
		if *size < 0 || *size > int64(len(rest)) {
			return nil, invalid("binary_data_size is %d, but %d bytes of binary data are left", *size, len(rest))
		}
		t.Data = rest[:*size:*size]
		return rest[*size:], nil
	case j.Data == nil:
		return nil, invalid("it has neither data nor binary_data_size")
	}
	t.Data, err = parseData(t.Datatype, j.Data, room)
	return rest, err
}

// elements is how many bytes the elements of a tensor take that are written as JSON, at most.
func elements(j *tensorJSON) int64 {
	if j.Data == nil {
		return 0
	}
	n := int64(bytes.Count(j.Data, []byte(","))) + 1
	if j.Datatype == wire.Bytes { // each a length and its text
		return int64(len(j.Data)) + 4*n
	}
	return n * int64(wire.Size(j.Datatype))
}

// EncodeResponse writes an answer. binary says which outputs go as binary
// data; header is the length of the JSON part, or -1 when that is all.
func EncodeResponse(r *wire.InferResponse, binary func(output string) bool) (body []byte, header int, err error) {
	return encodeResponse(r, binary, nil)
}

// encodeResponse leaves out the data of outputs that lie in places; binary is false for them.
func encodeResponse(r *wire.InferResponse, binary func(output string) bool, places map[string]*window) (body []byte, header int, err error) {
	body = append(room(r.Outputs, len(r.Stages), binary), '{')
	body = appendText(append(body, `"model_name":`...), r.Pipeline)
	body = strconv.AppendInt(append(body, `,"model_version":"`...), int64(r.Generation), 10)
	body = appendID(append(body, `",`...), r.ID)
	if r.Generation != 0 || r.Elapsed != 0 || r.Shift != 0 || len(r.Stages) > 0 || r.Fresh {
		body = append(body, `"parameters":{`...)
		if r.Generation != 0 {
			body = append(strconv.AppendInt(append(body, `"generation":`...), int64(r.Generation), 10), ',')
		}
		if r.Elapsed != 0 {
			body = append(strconv.AppendInt(append(body, `"elapsed_ns":`...), int64(r.Elapsed), 10), ',')
		}
		if r.Shift != 0 {
			body = append(strconv.AppendInt(append(body, `"stream_shift_ns":`...), int64(r.Shift), 10), ',')
		}
		if len(r.Stages) > 0 {
			body = append(appendText(append(body, `"stages":`...), encodeStages(r.Stages)), ',')
		}
		if r.Fresh {
			body = append(body, `"`+wire.SequenceFresh+`":true,`...)
		}
		body[len(body)-1] = '}'
		body = append(body, ',')
	}
	body = append(body, `"outputs":[`...)
	header = -1
	for i := range r.Outputs {
		t := &r.Outputs[i]
		if i > 0 {
			body = append(body, ',')
		}
		if binary(t.Name) {
			header = 0 // known below
		}
		if body, err = appendTensor(body, t, binary(t.Name), places[t.Name].place(t)); err != nil {
			return nil, 0, wire.Errorf(wire.CodeInvalid, "", "output %q cannot be returned: %s", t.Name, reason(err))
		}
	}
	body = append(body, "]}"...)
	if header < 0 {
		return body, header, nil
	}
	header = len(body)
	for i := range r.Outputs {
		if t := &r.Outputs[i]; binary(t.Name) {
			body = append(body, t.Data...)
		}
	}
	return body, header, nil
}

// DecodeResponse reads a body whose JSON part is header bytes long; -1 means
// all of it.
func DecodeResponse(body []byte, header int) (*wire.InferResponse, error) {
	return decodeResponse(body, header, new(wire.InferRequest), new(Places))
}

func decodeResponse(body []byte, header int, q *wire.InferRequest, p *Places) (*wire.InferResponse, error) {
	head, rest, err := cut(body, header)
	if err != nil {
		return nil, err
	}
	var j responseJSON
	if err := read(head, &j); err != nil {
		return nil, invalid("the answer is not valid JSON of the protocol: %v", err)
	}
	r := &wire.InferResponse{ID: j.ID, Pipeline: j.Model, Generation: j.Parameters.Generation, Elapsed: time.Duration(j.Parameters.Elapsed), Fresh: j.Parameters.Fresh, Shift: time.Duration(j.Parameters.Shift)}
	if r.Outputs, err = tensors("output", j.Outputs, rest, nil, func(t *wire.NamedTensor, said *tensorParameters) ([]byte, error) {
		return p.placed(q, t, said)
	}); err != nil {
		return nil, err
	}
	if r.Stages, err = DecodeStages([]byte(j.Parameters.Stages)); err != nil {
		return nil, err
	}
	return r, nil
}

// encodeStages writes the parameter "stages" of an answer; empty for none.
func encodeStages(stages []wire.Stage) string {
	if len(stages) == 0 {
		return ""
	}
	return string(AppendStages(make([]byte, 0, 160*len(stages)), stages))
}

// DecodeStages reads what encodeStages wrote.
func DecodeStages(text []byte) ([]wire.Stage, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var list []stageJSON
	if err := read(text, &list); err != nil {
		return nil, invalid("the answer's parameter stages is not readable: %v", err)
	}
	stages := make([]wire.Stage, len(list))
	for i, s := range list {
		stages[i] = wire.Stage{
			Module: s.Module, Items: s.Items, Batch: s.Batch, Critical: s.Critical,
			Queue: time.Duration(s.Queue), Wait: time.Duration(s.Wait), Compute: time.Duration(s.Compute), Transfer: time.Duration(s.Transfer),
		}
	}
	return stages, nil
}
