package oip

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Names that the protocol fixes.
const (
	HeaderLength  = "Inference-Header-Content-Length" // HTTP header: length of the JSON part
	ContentJSON   = "application/json"
	ContentBinary = "application/octet-stream"
)

// HideToken takes a token, if any, out of what a server says: one that repeats what it was sent
// would tell it to callers, logs and histories.
func HideToken(text, token string) string {
	if token == "" {
		return text
	}
	return strings.ReplaceAll(text, token, "(token)")
}

type requestJSON struct {
	ID         string            `json:"id,omitempty"`
	Parameters requestParameters `json:"parameters,omitzero"`
	Inputs     []tensorJSON      `json:"inputs"`
	Outputs    []wantedJSON      `json:"outputs,omitempty"`
}

type requestParameters struct {
	BinaryOutput bool        `json:"binary_data_output,omitempty"`
	Timeout      json.Number `json:"timeout,omitempty"` // microseconds
}

type wantedJSON struct {
	Name       string           `json:"name"`
	Parameters wantedParameters `json:"parameters,omitzero"`
}

type wantedParameters struct {
	Binary *bool `json:"binary_data,omitempty"`
}

type tensorJSON struct {
	Name       string           `json:"name"`
	Shape      []int64          `json:"shape"`
	Datatype   string           `json:"datatype"`
	Parameters tensorParameters `json:"parameters,omitzero"`
	Data       json.RawMessage  `json:"data,omitempty"`
}

type tensorParameters struct {
	BinarySize *int64 `json:"binary_data_size,omitempty"`
}

type responseJSON struct {
	Model      string             `json:"model_name"`
	Version    string             `json:"model_version,omitempty"`
	ID         string             `json:"id,omitempty"`
	Parameters responseParameters `json:"parameters,omitzero"`
	Outputs    []tensorJSON       `json:"outputs"`
}

type responseParameters struct {
	Generation int    `json:"generation,omitempty"`
	Elapsed    int64  `json:"elapsed_ns,omitempty"`
	Stages     string `json:"stages,omitempty"`
}

// stageJSON is a wire.Stage as the parameter "stages" holds it.
type stageJSON struct {
	Module   string `json:"module"`
	Items    int    `json:"items"`
	Batch    int    `json:"batch"`
	Critical bool   `json:"critical,omitempty"`
	Queue    int64  `json:"queue_ns"`
	Wait     int64  `json:"wait_ns"`
	Compute  int64  `json:"compute_ns"`
	Transfer int64  `json:"transfer_ns"`
}

// invalid is the error of everything that cannot be read.
func invalid(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.CodeInvalid, "", format, args...)
}

// scanner reads JSON as clients of the protocol write it: objects with known members,
// each once, ASCII without control characters, whole numbers. It notes when it meets anything
// else; encoding/json, which takes several times as long, reads that then. Where it
// reads to the end, it has read what encoding/json would have, which the tests hold.
type scanner struct {
	rest []byte
	odd  bool // something else was met; nothing more is read
}

// skip takes white space.
func (s *scanner) skip() {
	i := 0
	for i < len(s.rest) && (s.rest[i] == ' ' || s.rest[i] == '\n' || s.rest[i] == '\t' || s.rest[i] == '\r') {
		i++
	}
	s.rest = s.rest[i:]
}

// mark takes a character that may have white space around it, if it comes next.
func (s *scanner) mark(c byte) bool {
	s.skip()
	if s.odd || len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	s.skip()
	return true
}

// expect takes a character that must come next.
func (s *scanner) expect(c byte) { s.odd = !s.mark(c) || s.odd }

// end reports whether all was read.
func (s *scanner) end() bool {
	s.skip()
	return !s.odd && len(s.rest) == 0
}

// raw takes a string and returns it without its quotes; it may alias what is read.
func (s *scanner) raw() []byte {
	var text []byte // what precedes from, without its escapes
	for i, from := 1, 1; !s.odd && i < len(s.rest) && s.rest[0] == '"'; i++ {
		switch c := s.rest[i]; {
		case c == '"':
			if text == nil {
				text = s.rest[from:i]
			} else {
				text = append(text, s.rest[from:i]...)
			}
			s.rest = s.rest[i+1:]
			return text
		case c == '\\' && i+1 < len(s.rest) && (s.rest[i+1] == '"' || s.rest[i+1] == '\\'):
			text = append(text, s.rest[from:i]...)
			i++
			from = i
		case !plain(c):
			s.odd = true
		}
	}
	s.odd = true
	return nil
}

func (s *scanner) text() string { return string(s.raw()) }

// datatype avoids an allocation for the common ones.
func (s *scanner) datatype() string {
	switch text := s.raw(); string(text) {
	case "FP32":
		return "FP32"
	case "UINT8":
		return "UINT8"
	case "INT64":
		return "INT64"
	default:
		return string(text)
	}
}

// digits takes a whole number of at most 18 digits, as it is written.
func (s *scanner) digits() []byte {
	const most = 18
	i := 0
	if i < len(s.rest) && s.rest[i] == '-' {
		i++
	}
	first := i
	for i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9' {
		i++
	}
	n := i - first
	if s.odd || n == 0 || n > most || n > 1 && s.rest[first] == '0' || i < len(s.rest) && (s.rest[i] == '.' || s.rest[i]|0x20 == 'e') {
		s.odd = true
		return nil
	}
	text := s.rest[:i]
	s.rest = s.rest[i:]
	return text
}

func (s *scanner) number() (n int64) {
	text := s.digits()
	for i, c := range text {
		if i > 0 || c != '-' {
			n = 10*n + int64(c-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		return -n
	}
	return n
}

// exactly takes what must come next, without white space.
func (s *scanner) exactly(text string) {
	if s.odd = s.odd || len(s.rest) < len(text) || string(s.rest[:len(text)]) != text; !s.odd {
		s.rest = s.rest[len(text):]
	}
}

func (s *scanner) bool() bool {
	for _, v := range []string{"true", "false"} {
		if !s.odd && len(s.rest) >= len(v) && string(s.rest[:len(v)]) == v {
			s.rest = s.rest[len(v):]
			return v == "true"
		}
	}
	s.odd = true
	return false
}

// object takes an object; value takes the value of one of the members by its place among
// the names.
func (s *scanner) object(names []string, value func(member int)) {
	s.expect('{')
	if s.mark('}') {
		return
	}
	seen := 0
	for more := true; more && !s.odd; more = s.mark(',') {
		name := s.raw()
		member := 0
		for member < len(names) && names[member] != string(name) {
			member++
		}
		if member == len(names) || seen&(1<<member) != 0 {
			s.odd = true
			return
		}
		seen |= 1 << member
		s.expect(':')
		value(member)
	}
	s.expect('}')
}

// list takes an array, whose elements value takes.
func (s *scanner) list(value func()) {
	s.expect('[')
	if s.mark(']') {
		return
	}
	for more := true; more && !s.odd; more = s.mark(',') {
		value()
	}
	s.expect(']')
}

// read reads JSON by the scanner where that can, else by encoding/json.
func read[T any](raw []byte, scan func(*scanner, *T)) (T, error) {
	var v T
	s := scanner{rest: raw}
	if scan(&s, &v); s.end() {
		return v, nil
	}
	v = *new(T)
	err := json.Unmarshal(raw, &v)
	return v, err
}

func (s *scanner) request(j *requestJSON) {
	s.object([]string{"id", "inputs", "outputs", "parameters"}, func(member int) {
		switch member {
		case 0:
			j.ID = s.text()
		case 1:
			j.Inputs = s.tensors()
		case 2:
			j.Outputs = s.wanted()
		case 3:
			s.object([]string{"timeout", "binary_data_output"}, func(member int) {
				if member == 0 {
					j.Parameters.Timeout = json.Number(s.digits())
				} else {
					j.Parameters.BinaryOutput = s.bool()
				}
			})
		}
	})
}

func (s *scanner) wanted() []wantedJSON {
	all := []wantedJSON{}
	s.list(func() {
		var w wantedJSON
		s.object([]string{"name", "parameters"}, func(member int) {
			if member == 0 {
				w.Name = s.text()
				return
			}
			s.object([]string{"binary_data"}, func(int) {
				binary := s.bool()
				w.Parameters.Binary = &binary
			})
		})
		all = append(all, w)
	})
	return all
}

func (s *scanner) response(j *responseJSON) {
	s.object([]string{"model_name", "model_version", "id", "parameters", "outputs"}, func(member int) {
		switch member {
		case 0:
			j.Model = s.text()
		case 1:
			j.Version = s.text()
		case 2:
			j.ID = s.text()
		case 3:
			s.object([]string{"generation", "elapsed_ns", "stages"}, func(member int) {
				switch p := &j.Parameters; member {
				case 0:
					p.Generation = int(s.number())
				case 1:
					p.Elapsed = s.number()
				case 2:
					p.Stages = s.text()
				}
			})
		case 4:
			j.Outputs = s.tensors()
		}
	})
}

// tensors takes tensors whose data follow as binary data.
func (s *scanner) tensors() []tensorJSON {
	all := []tensorJSON{}
	s.list(func() {
		var t tensorJSON
		s.object([]string{"name", "shape", "datatype", "parameters"}, func(member int) {
			switch member {
			case 0:
				t.Name = s.text()
			case 1:
				t.Shape = make([]int64, 0, 4)
				s.list(func() { t.Shape = append(t.Shape, s.number()) })
			case 2:
				t.Datatype = s.datatype()
			case 3:
				s.object([]string{"binary_data_size"}, func(int) {
					size := s.number()
					t.Parameters.BinarySize = &size
				})
			}
		})
		all = append(all, t)
	})
	return all
}

// usualStages reads stages as AppendStages writes them; false where they are otherwise.
func usualStages(text []byte) (all []wire.Stage, ok bool) {
	s := scanner{rest: text}
	s.exactly("[")
	for more := true; more && !s.odd; {
		all = append(all, s.stage())
		if more = bytes.HasPrefix(s.rest, []byte(",")); more {
			s.exactly(",")
		}
	}
	s.exactly("]")
	return all, !s.odd && len(s.rest) == 0
}

// stage takes one of usualStages.
func (s *scanner) stage() (to wire.Stage) {
	const critical = `,"critical":true`
	s.exactly(`{"module":`)
	to.Module = s.text()
	s.exactly(`,"items":`)
	to.Items = int(s.number())
	s.exactly(`,"batch":`)
	to.Batch = int(s.number())
	if to.Critical = bytes.HasPrefix(s.rest, []byte(critical)); to.Critical {
		s.exactly(critical)
	}
	s.exactly(`,"queue_ns":`)
	to.Queue = time.Duration(s.number())
	s.exactly(`,"wait_ns":`)
	to.Wait = time.Duration(s.number())
	s.exactly(`,"compute_ns":`)
	to.Compute = time.Duration(s.number())
	s.exactly(`,"transfer_ns":`)
	to.Transfer = time.Duration(s.number())
	s.exactly("}")
	return to
}
