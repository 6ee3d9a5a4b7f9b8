package child

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// longestLine is forwarded in one piece.
const longestLine = 8 << 10

// output forwards what a child prints, line by line, and keeps the first line
// that says why the child ended.
type output struct {
	to     io.Writer
	prefix string

	mu    sync.Mutex
	part  []byte // of a line
	cause string
}

// Write never fails: a child must not stop because nobody listens.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			break
		}
		o.part = append(o.part, p[:at]...)
		o.flush()
		p = p[at+1:]
	}
	o.part = append(o.part, p...)
	if len(o.part) > longestLine {
		o.flush()
	}
	return n, nil
}

func (o *output) flush() {
	line := strings.TrimRight(string(o.part), "\r")
	o.part = o.part[:0]
	if o.cause == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		o.cause = line
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

// why is the panic or fatal error that the child has printed, if any.
func (o *output) why() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}
