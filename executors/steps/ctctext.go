package steps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// maxDictionary bounds the file of a dictionary.
const maxDictionary = 1 << 20

// CTCText reads a line of text from the scores of a network that was trained
// with connectionist temporal classification (Graves et al. 2006): of every
// step the likeliest class, where equal neighbours are one letter and the first
// class, the blank, separates letters.
//
//	scores      FP32 [T, K]: probabilities of the classes, by step
//	text        BYTES []
//	confidence  FP32 []: mean probability of its letters; 0 without any
//
// Class 0 is the blank, class i line i of the dictionary, and a last class that
// the dictionary does not have is the space.
//
// Parameters:
//
//	dictionary_file  a text file of one letter a line; required
//	space            least probability of a space between two letters, 0 to 1,
//	                 even where the blank is likelier; default 1: the likeliest
//	                 class counts. Networks that were trained on scripts without
//	                 spaces are shy of them.
func CTCText() Function {
	return Function{Doc: "the text of a line, from scores by step", Prepare: prepareCTC}
}

func prepareCTC(p *Parameters) (Step, error) {
	path := p.Text("dictionary_file", "")
	space := float32(p.Number("space", 1, 0, 1))
	p.Need("dictionary_file")
	sig := pipelines.Signature{
		Inputs:  []pipelines.Port{fp32("scores", -1, -1)},
		Outputs: []pipelines.Port{{Name: "text", Datatype: wire.Bytes, Shape: []int64{}}, fp32("confidence")},
	}
	if path == "" {
		return Step{Signature: sig}, nil
	}
	letters, err := readDictionary(path)
	if err != nil {
		p.Failf("dictionary_file", "%v", err)
	}
	return Step{
		Signature: sig,
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			text, confidence, err := decodeCTC(inputs[0], letters, space)
			if err != nil {
				return nil, err
			}
			sure := blank()
			put(sure.Data, 0, confidence)
			return []wire.Tensor{wire.FromStrings([]string{text}).Reshape(), sure}, nil
		},
		// A line of a fair length, since the number of a network's steps is open.
		Sample: func(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
			scores := blank(max(shapes[0][0], openLeast), int64(len(letters)+2))
			for i := range count(scores.Shape) {
				put(scores.Data, i, rng.Float32())
			}
			return []wire.Tensor{scores}
		},
	}, nil
}

func readDictionary(path string) ([]string, error) {
	raw, err := osutil.ReadFile(path, maxDictionary)
	if err != nil {
		return nil, fmt.Errorf("names a file that cannot be read (%w)", err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("names %s, which is empty; a dictionary has a letter a line", path)
	}
	text := strings.TrimSuffix(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	return strings.Split(text, "\n"), nil
}

func decodeCTC(scores wire.Tensor, letters []string, space float32) (string, float32, error) {
	steps, classes := int(scores.Shape[0]), int(scores.Shape[1])
	spare := classes - 1 - len(letters)
	if spare != 0 && spare != 1 {
		return "", 0, fmt.Errorf("%d classes do not fit the %d letters of the dictionary: one more is needed for the blank, and two for a space", classes, len(letters))
	}
	var r ctcLine
	for t := range steps {
		step := scores.Data[4*t*classes : 4*(t+1)*classes]
		best, sure, err := likeliest(step)
		if err != nil {
			return "", 0, err
		}
		if best == 0 && spare == 1 && at(step, classes-1) >= space {
			best, sure = classes-1, at(step, classes-1)
		}
		r.add(best, sure, letters)
	}
	return strings.TrimRight(r.text.String(), " "), r.sum / float32(max(r.n, 1)), nil
}

// likeliest is the class of highest probability.
func likeliest(step []byte) (best int, sure float32, err error) {
	sure = at(step, 0)
	for i := 0; i+4 <= len(step); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(step[i:]))
		if !(x <= sure) {
			if x != x {
				return 0, 0, fmt.Errorf("score %d is not a number", i/4+1)
			}
			best, sure = i/4, x
		}
	}
	if sure != sure {
		return 0, 0, errors.New("score 1 is not a number")
	}
	return best, sure, nil
}

// ctcLine is a text as it is read.
type ctcLine struct {
	text   strings.Builder
	before int // the class of the last step
	spaced bool
	sum    float32 // of probabilities
	n      int
}

func (r *ctcLine) add(class int, sure float32, letters []string) {
	switch {
	case class == 0 || class == r.before:
	case class > len(letters):
		if !r.spaced && r.n > 0 {
			r.text.WriteByte(' ')
		}
		r.spaced = true
	default:
		r.text.WriteString(letters[class-1])
		r.spaced = false
		r.sum += sure
		r.n++
	}
	r.before = class
}
