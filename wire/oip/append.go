package oip

import (
	"encoding/json"
	"strconv"

	"github.com/harpagon/harpagon/wire"
)

// Requests and answers are written piece by piece: what encoding/json makes of the same
// structs is equal byte for byte, which the tests hold, but takes several times as long,
// and it reads through the elements of every tensor once more.

// appendText adds a JSON string. What JSON escapes beyond quotes and backslashes is left
// to encoding/json.
func appendText(b []byte, s string) []byte {
	begin := len(b)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case !plain(c) || c == '<' || c == '>' || c == '&':
			text, err := json.Marshal(s)
			if err != nil { // cannot happen: a string
				return append(b[:begin], `""`...)
			}
			return append(b[:begin], text...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// plain is true for characters that stand for themselves in a JSON string.
func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// appendID adds the member "id", unless it is empty, and a comma.
func appendID(b []byte, id string) []byte {
	if id == "" {
		return b
	}
	return append(appendText(append(b, `"id":`...), id), ',')
}

// appendTensor adds a tensor as a JSON object: without its data where they follow as
// binary data, else with them as an array.
func appendTensor(b []byte, t *wire.NamedTensor, binary bool) ([]byte, error) {
	b = appendText(append(b, `{"name":`...), t.Name)
	b = append(b, `,"shape":[`...)
	for i, d := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	b = appendText(append(b, `],"datatype":`...), t.Datatype)
	if binary {
		b = strconv.AppendInt(append(b, `,"parameters":{"binary_data_size":`...), int64(len(t.Data)), 10)
		return append(b, `}}`...), nil
	}
	b, err := appendData(append(b, `,"data":`...), &t.Tensor)
	return append(b, '}'), err
}

// AppendStages adds the JSON array that the parameter "stages" holds as a string.
func AppendStages(b []byte, stages []wire.Stage) []byte {
	b = append(b, '[')
	for i := range stages {
		s := &stages[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"module":`...), s.Module)
		b = strconv.AppendInt(append(b, `,"items":`...), int64(s.Items), 10)
		b = strconv.AppendInt(append(b, `,"batch":`...), int64(s.Batch), 10)
		if s.Critical {
			b = append(b, `,"critical":true`...)
		}
		b = strconv.AppendInt(append(b, `,"queue_ns":`...), int64(s.Queue), 10)
		b = strconv.AppendInt(append(b, `,"wait_ns":`...), int64(s.Wait), 10)
		b = strconv.AppendInt(append(b, `,"compute_ns":`...), int64(s.Compute), 10)
		b = strconv.AppendInt(append(b, `,"transfer_ns":`...), int64(s.Transfer), 10)
		b = append(b, '}')
	}
	return append(b, ']')
}
