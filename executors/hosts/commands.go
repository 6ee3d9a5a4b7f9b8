package hosts

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// commands is the driver that runs programs.
type commands struct {
	records
	Commands
}

// Create runs the command. What is half made, because it failed or because this process
// was killed meanwhile, is for Delete.
func (c *commands) Create(ctx context.Context, name string) error {
	made := record{Since: time.Now()}
	if err := c.write(name, made); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Create, name); err != nil {
		made.Failure = err.Error()
		_ = c.write(name, made) // it is told of now, and without the file later
		return err
	}
	made.Made = true
	return c.write(name, made)
}

// Delete runs the command and forgets the host when that has succeeded.
func (c *commands) Delete(ctx context.Context, name string) error {
	of, known, err := c.read(name)
	if err != nil || !known {
		return err
	}
	of.Going = true
	if err := c.write(name, of); err != nil {
		return err
	}
	if err := c.run(ctx, c.Commands.Delete, name); err != nil {
		return err
	}
	return c.forget(name)
}

// List says of a host whose command has neither succeeded nor failed that it was not
// finished; while it runs, who has called Create knows better.
func (c *commands) List() ([]Made, error) {
	return c.list(func(_ string, of record) string {
		if of.Made {
			return ""
		}
		return "the command that creates it was not finished"
	})
}

// outputKept is how much of what a command writes is looked at for its reason.
const outputKept = 64 << 10

// run runs a command for a host, in a process group of its own that ends with it, or
// when its time is over, or on Linux when this process is killed.
func (c *commands) run(ctx context.Context, command []string, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	runtime.LockOSThread() // on Linux the command ends with the thread that started it
	defer runtime.UnlockOSThread()
	var said tail
	cmd := exec.CommandContext(ctx, command[0], append(append([]string(nil), command[1:]...), name)...)
	cmd.SysProcAttr = boundGroup()
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for whoever has left the group and holds its output
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command has left behind
	}
	switch why := lastLine(said.kept); {
	case err == nil:
		return nil
	case ctx.Err() != nil && context.Cause(ctx) == context.DeadlineExceeded:
		return fmt.Errorf("%s was ended after %v, its limit%s", strings.Join(command, " "), c.Limit, quoted(why))
	default:
		return fmt.Errorf("%s: %w%s", strings.Join(command, " "), err, quoted(why))
	}
}

func quoted(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = slices.Delete(t.kept, 0, max(0, len(t.kept)-outputKept))
	return len(p), nil
}
