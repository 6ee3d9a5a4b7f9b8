package roles

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// recordMemory is kept for every module where a recording is asked for beforehand.
const recordMemory = 16 << 20

// recorder writes what stations were lately told and decided: to the file whenever the
// process gets SIGUSR1, and, where atEnd says so, when life ends. tell is told.
type recorder struct {
	path  string
	atEnd bool
	read  func() recording.Recording
	tell  func(string)
}

// newRecorder is for a path that the user has given, or for a file in the folder for
// temporary files where it is empty.
func newRecorder(path string, tell func(string), read func() recording.Recording) recorder {
	r := recorder{path: path, atEnd: path != "", read: read, tell: tell}
	if path == "" {
		r.path = filepath.Join(os.TempDir(), fmt.Sprintf("harpagon-%d.harprec", os.Getpid()))
	}
	if tell == nil {
		r.tell = func(string) {}
	}
	return r
}

func (r recorder) keep(life context.Context) {
	wanted := make(chan os.Signal, 1)
	signal.Notify(wanted, syscall.SIGUSR1)
	defer signal.Stop(wanted)
	for {
		done := false
		select {
		case <-wanted:
		case <-life.Done():
			done = true
		}
		if !done || r.atEnd {
			if err := r.write(); err != nil {
				r.tell(fmt.Sprintf("the recording was not written: %v", err))
			} else {
				r.tell("wrote " + r.path)
			}
		}
		if done {
			return
		}
	}
}

// write replaces the file as a whole.
func (r recorder) write() error {
	text, err := r.read().Append(nil)
	if err != nil {
		return err
	}
	return osutil.ReplaceFile(r.path, text, 0o600)
}

// checkRecord says early that a recording cannot be written to the file.
func checkRecord(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("--record %s: there is no folder %s", path, filepath.Dir(path))
	}
	return nil
}
