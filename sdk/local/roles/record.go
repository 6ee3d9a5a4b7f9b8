package roles

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// recordMemory is kept for every module where a recording is asked for beforehand.
const recordMemory = 16 << 20

// keepRecording writes what the gateway's dispatchers were lately told and decided: to the file
// whenever the process gets SIGUSR1, and, where atEnd says so, when life ends. tell is told.
func (r *Gateway) keepRecording(life context.Context, path string, atEnd bool, tell func(string)) {
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
		if !done || atEnd {
			if err := r.writeRecording(path); err != nil {
				tell(fmt.Sprintf("the recording was not written: %v", err))
			} else {
				tell("wrote " + path)
			}
		}
		if done {
			return
		}
	}
}

// writeRecording replaces the file as a whole.
func (r *Gateway) writeRecording(path string) error {
	text, err := r.Gateway.Recording().Append(nil)
	if err != nil {
		return err
	}
	temporary := path + ".part"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
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
