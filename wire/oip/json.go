package oip

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

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

// read is Unmarshal of encoding/json, in less time: that of its second version, told to take what the
// first one takes.
func read(raw []byte, into any) error {
	return json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
		json.MatchCaseInsensitiveNames(true), jsonv1.MatchCaseSensitiveDelimiter(true), jsonv1.MergeWithLegacySemantics(true))
}

type requestJSON struct {
	ID         string            `json:"id,omitempty"`
	Parameters requestParameters `json:"parameters,omitzero"`
	Inputs     []tensorJSON      `json:"inputs"`
	Outputs    []wantedJSON      `json:"outputs,omitempty"`
}

type requestParameters struct {
	BinaryOutput bool           `json:"binary_data_output,omitempty"`
	Timeout      jsontext.Value `json:"timeout,omitempty"` // a number of microseconds

	SequenceID    jsontext.Value `json:"sequence_id,omitempty"` // a text, or a whole number
	SequenceStart bool           `json:"sequence_start,omitempty"`
	SequenceEnd   bool           `json:"sequence_end,omitempty"`
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
	Data       jsontext.Value   `json:"data,omitempty"`
}

type tensorParameters struct {
	BinarySize *int64 `json:"binary_data_size,omitempty"`

	// Where it lies in shared memory.
	Region     string `json:"shared_memory_region,omitempty"`
	Offset     *int64 `json:"shared_memory_offset,omitempty"`
	RegionSize *int64 `json:"shared_memory_byte_size,omitempty"`
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
