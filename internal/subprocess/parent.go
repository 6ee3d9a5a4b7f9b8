package subprocess

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// marker is the environment variable with a program's role.
const marker = "HARPAGON_CHILD"

// The files that a child inherits, after its standard three.
const (
	lineFile   = 3
	answerFile = 4
	firstFile  = 5 // of Command.Files
)

// atOnce follows the orders where there is no time to end in good order.
const atOnce = "{}\n"

// Requested is the role that this process was started for; empty where it was not started by
// Start, or has begun.
func Requested() string { return os.Getenv(marker) }

// Parent is a child's connection to its parent.
type Parent struct {
	Answers *os.File // what is written there is read from Process.Answers

	line *json.Decoder
}

// Begin makes a process that was Requested a child, and reads its orders; nil is for none.
func Begin(orders any) (*Parent, error) {
	_ = os.Unsetenv(marker)
	// Handled and not ignored, which what this process starts would inherit.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	p := &Parent{Answers: inherited(answerFile), line: json.NewDecoder(inherited(lineFile))}
	if orders == nil {
		orders = new(any)
	}
	if err := p.line.Decode(orders); err != nil {
		return nil, fmt.Errorf("subprocess: the orders of a child: %w", err)
	}
	return p, nil
}

// File is one of Command.Files.
func (*Parent) File(i int) *os.File { return inherited(firstFile + i) }

// inherited keeps a file from what this process starts, or its end would not be seen.
func inherited(fd int) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited")
}

// Wait returns when the parent is gone or wants the child to end; orderly is false where there
// is no time for that.
func (p *Parent) Wait() (orderly bool) { return p.line.Decode(&struct{}{}) != nil }
