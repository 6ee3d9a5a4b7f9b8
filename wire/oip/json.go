package oip

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
func read(raw []byte, into any, more ...json.Options) error {
	return json.Unmarshal(raw, into, append(more, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
		json.MatchCaseInsensitiveNames(true), jsonv1.MatchCaseSensitiveDelimiter(true), jsonv1.MergeWithLegacySemantics(true))...)
}

// readRequest is read for requests, whose parameters must all be known. Other members may be there.
func readRequest(raw []byte) (j requestJSON, err error) {
	if err = read(raw, &j, json.RejectUnknownMembers(true)); errors.Is(err, json.ErrUnknownName) {
		j = requestJSON{}
		if err = read(raw, &j); err == nil {
			err = strange(raw)
		}
	}
	return j, err
}

// parametersJSON are the parameters of a request, whatever they are called.
type parametersJSON struct {
	Parameters map[string]jsontext.Value `json:"parameters"`
	Inputs     []struct {
		Name       string                    `json:"name"`
		Parameters map[string]jsontext.Value `json:"parameters"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string                    `json:"name"`
		Parameters map[string]jsontext.Value `json:"parameters"`
	} `json:"outputs"`
}

// strange is the error of a request with a parameter that is not known.
func strange(raw []byte) error {
	var j parametersJSON
	if err := read(raw, &j); err != nil {
		return err
	}
	if err := onlyKnown(j.Parameters, "the request", binaryOutputKey, TimeoutKey, wire.SequenceID, wire.SequenceStart, wire.SequenceEnd, wire.StreamKind); err != nil {
		return err
	}
	for _, in := range j.Inputs {
		if err := onlyKnown(in.Parameters, fmt.Sprintf("input %q", in.Name), "binary_data_size", regionNameKey, regionOffsetKey, regionSizeKey); err != nil {
			return err
		}
	}
	for _, out := range j.Outputs {
		if err := onlyKnown(out.Parameters, fmt.Sprintf("output %q", out.Name), "binary_data", ClassificationKey, regionNameKey, regionOffsetKey, regionSizeKey); err != nil {
			return err
		}
	}
	return nil
}

// Names of parameters that requests have over HTTP and gRPC.
const (
	TimeoutKey        = "timeout"        // of a request: microseconds
	ClassificationKey = "classification" // of an output: how many classes

	binaryOutputKey = "binary_data_output"

	regionNameKey   = "shared_memory_region"
	regionOffsetKey = "shared_memory_offset"
	regionSizeKey   = "shared_memory_byte_size"
)

func onlyKnown(given map[string]jsontext.Value, where string, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return UnknownParameter(name, where, known...)
		}
	}
	return nil
}

// UnknownParameter is the error of a parameter that nothing here heeds: to pass over it would
// answer something else than was asked for.
func UnknownParameter(name, where string, known ...string) *wire.Error {
	return invalid("%s has the parameter %q, which is not known here; take it out. Known are: %s", where, name, strings.Join(known, ", "))
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
	StreamKind    string         `json:"stream_kind,omitempty"`
}

type wantedJSON struct {
	Name       string           `json:"name"`
	Parameters wantedParameters `json:"parameters,omitzero"`
}

type wantedParameters struct {
	Binary  *bool `json:"binary_data,omitempty"`
	Classes *int  `json:"classification,omitempty"`

	placeParameters
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

	placeParameters
}

// placeParameters say where a tensor lies in shared memory.
type placeParameters struct {
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
	Shift      int64  `json:"stream_shift_ns,omitempty"`
	Stages     string `json:"stages,omitempty"`
	Fresh      bool   `json:"sequence_fresh,omitempty"`
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
