//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What makes a program a supervisor, with the time between SIGTERM and SIGKILL in
// milliseconds, and how many arguments belong to the supervisor's own command line.
const (
	marker = "HARPAGON_SUPERVISOR"
	offset = "HARPAGON_SUPERVISOR_ARGUMENTS"
)

// lifeFile is the end of the pipe that closes with the executor.
const lifeFile = 3

// Exit codes, as shells have them.
const (
	exitMissing = 127
	exitSignal  = 128 // and more: 128 plus the number of the signal
)

// Requested says that this process was started to supervise a command.
func Requested() bool { return os.Getenv(marker) != "" }

// Supervise starts the command in the arguments and ends when it does. It does not
// return. The main of a program that uses the engine calls it first when
// Requested.
func Supervise() {
	os.Exit(supervise())
}

func supervise() int {
	runtime.LockOSThread() // on Linux the command ends with the thread that started it
	grace, err := strconv.Atoi(os.Getenv(marker))
	from, err2 := strconv.Atoi(os.Getenv(offset))
	if err != nil || err2 != nil || from < 1 || from >= len(os.Args) {
		fmt.Fprintln(os.Stderr, "harpagon: a supervisor was started without a command")
		return exitMissing
	}
	adopt()
	command := os.Args[from:]
	c := exec.Command(command[0], command[1:]...)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, marker) })
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = supervisedGroup()
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitMissing
	}
	over := make(chan struct{})
	go func() {
		if orderly := waitForEnd(); orderly {
			signalGroup(c.Process.Pid, syscall.SIGTERM)
			select {
			case <-over:
			case <-time.After(time.Duration(grace) * time.Millisecond):
			}
		}
		signalGroup(c.Process.Pid, syscall.SIGKILL)
	}()
	err = c.Wait()
	close(over)
	signalGroup(c.Process.Pid, syscall.SIGKILL) // what the command has left behind
	killAdopted()
	return exitCode(err)
}

// waitForEnd returns when the executor is gone or wants the command to end; orderly is
// false where it wrote that there is no time for that.
func waitForEnd() (orderly bool) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	hungUp := make(chan bool, 1)
	go func() {
		n, _ := os.NewFile(lifeFile, "life").Read(make([]byte, 1))
		hungUp <- n == 0
	}()
	select {
	case <-ended:
		return true
	case orderly = <-hungUp:
		return orderly
	}
}

func signalGroup(leader int, s syscall.Signal) { _ = syscall.Kill(-leader, s) }

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

// describe says what an exit code of a supervisor means.
func describe(code int) string {
	switch {
	case code == 0:
		return "it ended by itself"
	case code == exitMissing:
		return "it could not be started"
	case code > exitSignal:
		return "it was ended by signal " + strconv.Itoa(code-exitSignal) + " (" + syscall.Signal(code-exitSignal).String() + ")"
	}
	return "it ended with exit status " + strconv.Itoa(code)
}

// ownGroup keeps the signals of a terminal away from the supervisor.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
