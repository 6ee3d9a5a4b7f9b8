package subprocess

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// supervisor is the role of those that run the commands of others.
const supervisor = "a supervisor"

// command is the orders of a supervisor.
type command struct {
	Run    []string
	Grace  time.Duration
	Folder string
	Holds  Contents
}

// Exit codes, as shells have them.
const (
	exitMissing = 127
	exitSignal  = 128 // and more: 128 plus the number of the signal
)

// Supervise runs a command of others and ends when it does, in a process that was started for
// that; there it does not return. Elsewhere it does nothing. The main of a program that uses
// Command.Run calls it first.
func Supervise() {
	if Requested() == supervisor {
		os.Exit(supervise())
	}
}

func supervise() int {
	runtime.LockOSThread() // on Linux the command ends with the thread that started it
	var o command
	parent, err := Begin(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitMissing
	}
	if o.Folder != "" {
		defer os.RemoveAll(o.Folder)
		if err := makeFolder(o.Folder, o.Holds); err != nil {
			fmt.Fprintln(os.Stderr, "a folder for the command:", err)
			return exitMissing
		}
	}
	adopt()
	c := exec.Command(o.Run[0], o.Run[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = attributes(true)
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "it could not be started:", err)
		return exitMissing
	}
	kill := func(s syscall.Signal) { _ = syscall.Kill(-c.Process.Pid, s) }
	over := make(chan struct{})
	go func() {
		if parent.Wait() {
			kill(syscall.SIGTERM)
			select {
			case <-over:
			case <-time.After(o.Grace):
			}
		}
		kill(syscall.SIGKILL)
	}()
	err = c.Wait()
	close(over)
	kill(syscall.SIGKILL) // what the command has left behind
	killAdopted()
	return exitCode(err)
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return 1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}

// makeFolder makes a folder that other users cannot read.
func makeFolder(folder string, holds Contents) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for name, text := range holds {
		at := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
