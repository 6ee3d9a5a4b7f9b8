package oip

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// EncodeResponse writes an answer. binary says which outputs go as binary
// data; header is the length of the JSON part, or -1 when that is all.
func EncodeResponse(r *wire.InferResponse, binary func(output string) bool) (body []byte, header int, err error) {
	body = append(room(r.Outputs, len(r.Stages), binary), '{')
	body = appendText(append(body, `"model_name":`...), r.Pipeline)
	body = strconv.AppendInt(append(body, `,"model_version":"`...), int64(r.Generation), 10)
	body = appendID(append(body, `",`...), r.ID)
	if r.Generation != 0 || r.Elapsed != 0 || len(r.Stages) > 0 {
		body = append(body, `"parameters":{`...)
		if r.Generation != 0 {
			body = append(strconv.AppendInt(append(body, `"generation":`...), int64(r.Generation), 10), ',')
		}
		if r.Elapsed != 0 {
			body = append(strconv.AppendInt(append(body, `"elapsed_ns":`...), int64(r.Elapsed), 10), ',')
		}
		if len(r.Stages) > 0 {
			body = append(appendText(append(body, `"stages":`...), encodeStages(r.Stages)), ',')
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
		if body, err = appendTensor(body, t, binary(t.Name)); err != nil {
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
	head, rest, err := cut(body, header)
	if err != nil {
		return nil, err
	}
	j, err := read(head, (*scanner).response)
	if err != nil {
		return nil, invalid("the answer is not valid JSON of the protocol: %v", err)
	}
	r := &wire.InferResponse{ID: j.ID, Pipeline: j.Model, Generation: j.Parameters.Generation, Elapsed: time.Duration(j.Parameters.Elapsed)}
	if r.Outputs, err = tensors("output", j.Outputs, rest, nil); err != nil {
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
	if all, ok := usualStages(text); ok {
		return all, nil
	}
	var list []stageJSON
	if err := json.Unmarshal(text, &list); err != nil {
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
