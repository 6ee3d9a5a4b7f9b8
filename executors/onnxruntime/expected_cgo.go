//go:build cgo

package onnxruntime

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/harpagon/harpagon/wire"
)

// The binding cannot make values of outputs that are FP16, BF16 or scalars. They
// are made before the run, of the shape that the model declares. Where it leaves dimensions
// open, ONNX Runtime's error has the shape that it requires.

// expected is an output that is made before the run; nil shape for others.
type expected struct {
	datatype string
	shape    []int64
}

// expect lists the outputs that must be made before a run of batches of n.
func (s *session) expect(n int) []expected {
	all := make([]expected, len(s.ports.Outputs))
	for j, p := range s.ports.Outputs {
		if p.Datatype == "" {
			continue
		}
		shape := batched(p.Shape, s.out[j], n)
		if p.Datatype != wire.FP16 && p.Datatype != wire.BF16 && len(shape) > 0 {
			continue
		}
		for k := range shape {
			shape[k] = max(shape[k], 1) // a first guess where it is open
		}
		all[j] = expected{p.Datatype, shape}
	}
	return all
}

// make gives the value, and the view that frees nothing.
func (e expected) make() (ort.Value, error) {
	var v view
	if err := v.set(make([]byte, bytesOf(e.datatype, e.shape)), e.datatype, e.shape); err != nil {
		return nil, err
	}
	return v.value, nil
}

// wanted finds both shapes in ONNX Runtime's error about an output of another
// shape than it computes.
var wanted = regexp.MustCompile(`[Cc]urrent shape:\{([0-9,]*)\} [Rr]equested shape:\{([0-9,]*)\}`)

// learn takes over the shape that the error requires; false when it is about something else.
func learn(all []expected, err error) bool {
	m := wanted.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	current, requested := dimensions(m[1]), dimensions(m[2])
	for j := range all {
		if all[j].shape != nil && slices.Equal(all[j].shape, current) && !slices.Equal(current, requested) {
			all[j].shape = requested
			return true
		}
	}
	return false
}

func dimensions(text string) []int64 {
	shape := []int64{}
	for _, s := range strings.Split(text, ",") {
		if d, err := strconv.ParseInt(s, 10, 64); err == nil {
			shape = append(shape, d)
		}
	}
	return shape
}
