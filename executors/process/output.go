package process

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// longestLine is forwarded in one piece.
const longestLine = 8 << 10

// output forwards what a command prints, line by line, and keeps the last line,
// which mostly says why it ended.
type output struct {
	to     io.Writer
	prefix string

	mu    sync.Mutex
	part  []byte // of a line
	final string
}

func newOutput(to io.Writer, module string) *output {
	if to == nil {
		to = os.Stderr
	}
	return &output{to: to, prefix: "[process " + module + "] "}
}

// Write never fails: a command must not stop because nobody listens.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		o.part = append(o.part, line...)
		if !found {
			break
		}
		o.flush()
		p = rest
	}
	if len(o.part) > longestLine {
		o.flush()
	}
	return n, nil
}

func (o *output) flush() {
	line := strings.TrimRight(string(o.part), "\r")
	o.part = o.part[:0]
	if strings.TrimSpace(line) != "" {
		o.final = line
	}
	_, _ = io.WriteString(o.to, o.prefix+line+"\n")
}

// end forwards a last line without line break.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.part) > 0 {
		o.flush()
	}
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.final
}
