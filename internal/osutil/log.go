package osutil

import (
	"os"
	"sync"
)

// maxLog is the size in bytes from which a log begins again: what was written before
// is kept beside it until the next time, so that twice as much is on disk at most.
const maxLog = 64 << 20

// old is the file of what was written before.
func old(path string) string { return path + ".1" }

// Log is a file that is appended to and stays bounded.
type Log struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens or creates a log.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path, most: maxLog}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	l.file, l.size = file, 0
	if info, err := file.Stat(); err == nil {
		l.size = info.Size()
	}
	return nil
}

// Write appends.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		if err := l.renew(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *Log) renew() error {
	err := os.Rename(l.path, old(l.path))
	if err != nil {
		err = os.Truncate(l.path, 0) // bounded rather than kept
	}
	if err != nil {
		return err
	}
	before := l.file
	if err := l.open(); err != nil {
		return err
	}
	return before.Close()
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
