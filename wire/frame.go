package wire

import (
	"strconv"
	"strings"
	"unicode"
)

// Frame means that a request is a frame of a stream, as the sequence parameters of the Open Inference
// Protocol do. The zero value is no frame.
type Frame struct {
	Stream string // its name, at most MaxStreamName long
	Kind   string // its kind, of a pipeline with several; "" for that with which it opened, or the only one
	First  bool   // nothing of a stream of that name before counts
	Last   bool   // no more are to come
}

// The parameters of a request that is a frame.
const (
	SequenceID    = "sequence_id" // a text, or a whole number
	SequenceStart = "sequence_start"
	SequenceEnd   = "sequence_end"
	StreamKind    = "stream_kind" // a text

	SequenceState = "sequence_state" // an input and an output, see Frame
	SequenceFresh = "sequence_fresh" // of an answer, see InferResponse.Fresh
)

// MaxStreamName bounds the name of a stream, in bytes.
const MaxStreamName = 128

// IsZero reports whether there is none.
func (f Frame) IsZero() bool { return f == Frame{} }

// Check reports what is wrong with a frame.
func (f Frame) Check() *Error {
	switch {
	case f.Stream == "" && (f.First || f.Last):
		return Errorf(CodeInvalid, "", "a frame names its stream: give %s a text or a number other than 0", SequenceID)
	case len(f.Stream) > MaxStreamName:
		return Errorf(CodeInvalid, "", "%s has %d bytes, and at most %d are taken", SequenceID, len(f.Stream), MaxStreamName)
	case strings.ContainsFunc(f.Stream, unicode.IsControl):
		return Errorf(CodeInvalid, "", "%s has control characters", SequenceID)
	case len(f.Kind) > MaxStreamName || strings.ContainsFunc(f.Kind, unicode.IsControl):
		return Errorf(CodeInvalid, "", "%s is a name of at most %d bytes, without control characters", StreamKind, MaxStreamName)
	}
	return nil
}

// NumberedStream is the name of the stream of that number; 0 is none.
func NumberedStream(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
