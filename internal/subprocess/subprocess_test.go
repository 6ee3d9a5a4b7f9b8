package subprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is for what takes milliseconds on a machine that is not busy.
const patience = time.Minute

type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// await waits until a text was printed.
func (p *printed) await(t *testing.T, text string) string {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.String(), text) }, patience, time.Millisecond, text)
	return p.String()
}

// begin starts an obedient child that has answered.
func begin(t *testing.T, c Command) (*Process, string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	c.Role, c.Files = obedient, []*os.File{r}
	if c.Output == nil {
		c.Output = io.Discard
	}
	p, err := Start(c)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	_, _ = io.WriteString(w, "a file")
	require.NoError(t, w.Close())
	line := ""
	require.NoError(t, p.Greet(t.Context(), patience, func(context.Context) (err error) {
		line, err = bufio.NewReader(p.Answers).ReadString('\n')
		return err
	}))
	return p, line
}

// requireGone waits until processes have ended, those that nobody waits for included.
func requireGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool {
			if runtime.GOOS != "linux" {
				return syscall.Kill(pid, 0) != nil
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || bytes.Contains(stat, []byte(") Z "))
		}, patience, time.Millisecond, "process %d lives", pid)
	}
}

func TestAChildHasOrdersFilesAndAnswers(t *testing.T) {
	long := strings.Repeat("x", 1<<20) // more than a pipe holds
	p, line := begin(t, Command{Orders: orders{Say: long}, Grace: patience})
	require.Equal(t, long+" a file \"\"\n", line, "and its own children are not taken for it")
	session, err := unix.Getsid(p.PID())
	require.NoError(t, err)
	require.Equal(t, p.PID(), session)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(p.PID(), s)) // as to all processes of a service
	}
	p.Stop()
	require.True(t, p.Succeeded(), p.End())
	require.Equal(t, "exit status 0", p.End())
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH, "not even a zombie is left")
	p.Stop()
	p.Kill(errors.New("too late"))
	require.NoError(t, p.Cause())
}

func TestHowAChildEnded(t *testing.T) {
	for then, want := range map[string]string{"panic": "exit status 2, panic: asked to", "fail": "exit status 3, saying: the last word"} {
		var out printed
		p, _ := begin(t, Command{Orders: orders{Then: then}, Output: &out, Prefix: "[x] "})
		<-p.Ended()
		require.Equal(t, want, p.End())
		require.False(t, p.Succeeded())
		_, last, _ := strings.Cut(want, ", ")
		require.Contains(t, out.String(), "[x] "+strings.TrimPrefix(last, "saying: ")+"\n")
	}
	p, _ := begin(t, Command{Orders: orders{Then: "stay"}})
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	<-p.Ended()
	require.Equal(t, "signal: killed", p.End())

	p, _ = begin(t, Command{Orders: orders{Then: "stay"}, Grace: time.Hour})
	p.Kill(errors.New("it is too slow"))
	p.Kill(errors.New("another reason"))
	<-p.Ended()
	require.Equal(t, "it is too slow", p.End())
}

func TestWhoDoesNotHearIsKilled(t *testing.T) {
	p, _ := begin(t, Command{Orders: orders{Then: "stay"}, Grace: time.Millisecond})
	p.Stop()
	require.Equal(t, "signal: killed", p.End())
}

func TestWhoDoesNotGreet(t *testing.T) {
	nobody, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		command Command
		ctx     context.Context
		within  time.Duration
		want    string
	}{
		{Command{Role: deaf}, t.Context(), 50 * time.Millisecond, "no sign of life within 50ms"},
		{Command{Role: deaf}, nobody, 0, "context canceled"},
		{Command{Role: rude}, t.Context(), 0, "did not become a test that panics (exit status 2, panic: not today); its main must call local.ChildMain first"},
		{Command{Role: "x", Args: []string{"true"}}, t.Context(), 0, "true did not become x (exit status 0)"},
	} {
		c.command.Output = io.Discard
		p, err := Start(c.command)
		require.NoError(t, err)
		err = p.Greet(c.ctx, c.within, func(context.Context) error {
			_, err := p.Answers.Read(make([]byte, 1))
			return err
		})
		require.ErrorContains(t, err, c.want)
		require.False(t, p.Alive())
	}
	_, err := Start(Command{Args: []string{"/no/such/program"}})
	require.ErrorContains(t, err, "/no/such/program")
	t.Setenv(marker, "something")
	_, err = Start(Command{})
	require.ErrorContains(t, err, "started to be something, but its main does not call local.ChildMain first")
}

// A greeting that cannot be understood comes from one that lives; it is stopped.
func TestAGreetingThatIsNone(t *testing.T) {
	p, err := Start(Command{Role: obedient, Output: io.Discard, Grace: patience})
	require.NoError(t, err)
	wrong := errors.New("that is no greeting")
	require.ErrorIs(t, p.Greet(t.Context(), patience, func(context.Context) error { return wrong }), wrong)
	require.False(t, p.Alive())
}

func TestCommandsOfOthers(t *testing.T) {
	start := func(how string, grace time.Duration) (*Process, *printed, []int) {
		out := new(printed)
		p, err := Start(Command{Run: []string{os.Args[0], foreign, how}, Output: out, Grace: grace})
		require.NoError(t, err)
		t.Cleanup(p.Stop)
		pids := numbers(out.await(t, "begun \n"))
		require.Len(t, pids, 3)
		if runtime.GOOS != "linux" {
			pids = pids[1:] // what has left the group cannot be found elsewhere
		}
		return p, out, pids
	}
	t.Run("hung up", func(t *testing.T) {
		p, out, pids := start("tidy", time.Hour)
		p.Stop()
		require.Equal(t, "exit status 7, saying: tidied up", p.End())
		require.Contains(t, out.String(), "tidied up")
		requireGone(t, pids...)
		require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
	})
	t.Run("stubborn", func(t *testing.T) {
		p, _, pids := start("stubborn", 50*time.Millisecond)
		p.Stop()
		require.Contains(t, p.End(), "signal: killed")
		requireGone(t, pids...)
	})
	t.Run("killed", func(t *testing.T) {
		p, out, pids := start("tidy", time.Hour)
		p.Kill(errors.New("no time"))
		<-p.Ended()
		require.Equal(t, "no time", p.End())
		require.NotContains(t, out.String(), "tidied up")
		requireGone(t, pids...)
	})
	t.Run("by itself", func(t *testing.T) {
		p, _, pids := start("tidy", time.Hour)
		require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGKILL))
		<-p.Ended()
		require.Contains(t, p.End(), "signal: killed")
		requireGone(t, pids...)
	})
	t.Run("missing", func(t *testing.T) {
		p, err := Start(Command{Run: []string{"/no/such/program"}, Output: io.Discard})
		require.NoError(t, err)
		<-p.Ended()
		require.Contains(t, p.End(), "exit status 127, saying: it could not be started: fork/exec /no/such/program: no such file")
		p.Stop()
	})
}

// Nothing outlives a parent that was killed, nor a supervisor.
func TestNothingOutlivesAKilledParent(t *testing.T) {
	for _, how := range []string{obedient, foreign} {
		var out printed
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), victim+"="+how)
		c.Stdout, c.Stderr = &out, os.Stderr
		c.WaitDelay = time.Millisecond
		require.NoError(t, c.Start())
		pids := numbers(out.await(t, "begun"))
		require.NotEmpty(t, pids)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
		if runtime.GOOS != "linux" && how == foreign {
			pids = pids[1:]
		}
		requireGone(t, pids...)
	}
}

// Files, threads and goroutines are given back.
func TestNothingLeaks(t *testing.T) {
	count := func() (goroutines, files int) {
		entries, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(entries)
	}
	cycle := func() {
		p, _ := begin(t, Command{Grace: patience})
		p.Stop()
		_, err := Start(Command{Args: []string{"/no/such/program"}})
		require.Error(t, err)
	}
	cycle()
	goroutines, files := count()
	for range 5 {
		cycle()
	}
	require.Eventually(t, func() bool {
		g, f := count()
		return g <= goroutines+1 && f <= files // and what Eventually takes itself
	}, patience, time.Millisecond)
}
