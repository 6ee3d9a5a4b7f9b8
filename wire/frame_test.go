package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNamesOfStreams(t *testing.T) {
	for name, c := range map[string]struct {
		frame Frame
		says  string
	}{
		"none":               {Frame{}, ""},
		"a kind":             {Frame{Stream: "camera 7", Kind: "fast"}, ""},
		"a kind alone":       {Frame{Kind: "fast"}, ""},
		"no kind":            {Frame{Stream: "1", Kind: "a\nb"}, "stream_kind is a name"},
		"a name":             {Frame{Stream: "camera 7", First: true}, ""},
		"the longest":        {Frame{Stream: strings.Repeat("a", MaxStreamName)}, ""},
		"longer":             {Frame{Stream: strings.Repeat("a", MaxStreamName+1)}, "at most 128"},
		"the end of nothing": {Frame{Last: true}, "names its stream"},
		"control characters": {Frame{Stream: "\x001"}, "control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.frame.Check()
			if c.says == "" {
				assert.Nil(t, err)
				return
			}
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, c.says)
		})
	}
	assert.Empty(t, NumberedStream(0))
	assert.Equal(t, "18446744073709551615", NumberedStream(1<<64-1))
}
