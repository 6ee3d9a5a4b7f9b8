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
	j := responseJSON{Model: r.Pipeline, Version: strconv.Itoa(r.Generation), ID: r.ID, Outputs: make([]tensorJSON, len(r.Outputs))}
	j.Parameters = responseParameters{Generation: r.Generation, Elapsed: int64(r.Elapsed), Stages: EncodeStages(r.Stages)}
	header = -1
	var behind []wire.NamedTensor
	total := 0
	for i := range r.Outputs {
		t := &r.Outputs[i]
		if j.Outputs[i] = binaryTensor(t); binary(t.Name) {
			behind = append(behind, *t)
			total += len(t.Data)
			header = 0
			continue
		}
		j.Outputs[i].Parameters.BinarySize = nil
		if j.Outputs[i].Data, err = formatData(&t.Tensor); err != nil {
			return nil, 0, wire.Errorf(wire.CodeInvalid, "", "output %q cannot be returned: %s", t.Name, reason(err))
		}
	}
	body, n, err := assemble(j, behind, total)
	if header == 0 {
		header = n
	}
	return body, header, err
}

// DecodeResponse reads a body whose JSON part is header bytes long; -1 means
// all of it.
func DecodeResponse(body []byte, header int) (*wire.InferResponse, error) {
	head, rest, err := cut(body, header)
	if err != nil {
		return nil, err
	}
	var j responseJSON
	if err := json.Unmarshal(head, &j); err != nil {
		return nil, invalid("the answer is not valid JSON of the protocol: %v", err)
	}
	r := &wire.InferResponse{ID: j.ID, Pipeline: j.Model, Generation: j.Parameters.Generation, Elapsed: time.Duration(j.Parameters.Elapsed)}
	if r.Outputs, err = tensors("output", j.Outputs, rest); err != nil {
		return nil, err
	}
	if r.Stages, err = DecodeStages(j.Parameters.Stages); err != nil {
		return nil, err
	}
	return r, nil
}

// EncodeStages writes the parameter "stages" of an answer; empty for none.
func EncodeStages(stages []wire.Stage) string {
	if len(stages) == 0 {
		return ""
	}
	list := make([]stageJSON, len(stages))
	for i, s := range stages {
		list[i] = stageJSON{s.Module, s.Items, s.Batch, s.Critical, int64(s.Queue), int64(s.Wait), int64(s.Compute), int64(s.Transfer)}
	}
	text, err := json.Marshal(list)
	if err != nil { // cannot happen: strings and numbers only
		return ""
	}
	return string(text)
}

// DecodeStages reads what EncodeStages wrote.
func DecodeStages(text string) ([]wire.Stage, error) {
	if text == "" {
		return nil, nil
	}
	var list []stageJSON
	if err := json.Unmarshal([]byte(text), &list); err != nil {
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
