package functions

import (
	"context"
	"fmt"
	"os"
	"strings"

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
func CTCText() Function {
	return Function{Doc: "the text of a line, from scores by step", Prepare: prepareCTC}
}

func prepareCTC(p *Parameters) (Step, error) {
	path := p.Text("dictionary_file", "")
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
			text, confidence, err := decodeCTC(inputs[0], letters)
			if err != nil {
				return nil, err
			}
			sure := blank()
			put(sure.Data, 0, confidence)
			return []wire.Tensor{wire.FromStrings([]string{text}).Reshape(), sure}, nil
		},
	}, nil
}

func readDictionary(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("names a file that cannot be read (%w)", err)
	}
	if info.Size() == 0 || info.Size() > maxDictionary {
		return nil, fmt.Errorf("names %s of %d bytes; a dictionary has 1 to %d", path, info.Size(), maxDictionary)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	return strings.Split(text, "\n"), nil
}

func decodeCTC(scores wire.Tensor, letters []string) (string, float32, error) {
	steps, classes := int(scores.Shape[0]), int(scores.Shape[1])
	if spare := classes - 1 - len(letters); spare != 0 && spare != 1 {
		return "", 0, fmt.Errorf("%d classes do not fit the %d letters of the dictionary: one more is needed for the blank, and two for a space", classes, len(letters))
	}
	var text strings.Builder
	sum, n, before := float32(0), 0, 0
	for t := range steps {
		best, _, err := argmax(scores.Data[4*t*classes:4*(t+1)*classes], classes, false)
		if err != nil {
			return "", 0, err
		}
		if best != 0 && best != before {
			if best <= len(letters) {
				text.WriteString(letters[best-1])
			} else {
				text.WriteByte(' ')
			}
			sum += at(scores.Data, t*classes+best)
			n++
		}
		before = best
	}
	return text.String(), sum / float32(max(n, 1)), nil
}
