package subprocess

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// longestLine is forwarded in one piece; longer ones are cut.
const longestLine = 8 << 10

// lines forwards what is written to it, line by line.
type lines struct {
	to     io.Writer
	prefix string

	mu    sync.Mutex
	part  []byte // of a line
	last  string
	crash string
}

// newLines forwards lines behind a prefix; nil means to os.Stderr.
func newLines(to io.Writer, prefix string) *lines {
	if to == nil {
		to = os.Stderr
	}
	return &lines{to: to, prefix: prefix}
}

// Write never fails: a process must not stop because its output is not read.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		l.part = append(l.part, line...)
		if !found {
			break
		}
		l.flush()
		p = rest
	}
	if len(l.part) > longestLine {
		l.flush()
	}
	return n, nil
}

func (l *lines) flush() {
	line := strings.TrimRight(string(l.part), "\r")
	l.part = l.part[:0]
	if strings.TrimSpace(line) != "" {
		l.last = line
	}
	if l.crash == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		l.crash = line
	}
	_, _ = io.WriteString(l.to, l.prefix+line+"\n")
}

// End forwards a last line without line break.
func (l *lines) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.flush()
	}
}

// Last is the last line with text.
func (l *lines) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Crash is the first line that a Go program prints when it panics or its runtime gives up;
// empty where there is none.
func (l *lines) Crash() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crash
}
