package child

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

const patience = 10 * time.Second

// quick is the options of children whose output is kept.
func quick(out *log) Options {
	return Options{Output: out}
}

// log is a writer that several children may share.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func load(t testing.TB, o Options, parameters map[string]any) *instance {
	t.Helper()
	in, err := New("trial", o).Load(t.Context(), model(parameters))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in.(*instance)
}

func model(parameters map[string]any) executors.Model {
	return executors.Model{Module: pipelines.Module{Name: "detect", Parameters: parameters}, Batches: []int{1, 2}}
}

func batch(values ...float32) [][]wire.Tensor {
	return [][]wire.Tensor{{wire.FromFloat32(values, int64(len(values)))}}
}

func pid(in *instance) int { return in.PID() }

// noLeaks fails when goroutines or files are left behind by f.
func noLeaks(t *testing.T, f func()) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	f()
	// assert.Eventually would count its own goroutines.
	for begin := time.Now(); runtime.NumGoroutine() > goroutines || openFiles() > files; time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines and %d files before, now %d and %d:\n%s", goroutines, files,
				runtime.NumGoroutine(), openFiles(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func ended(pid int) bool { return syscall.Kill(pid, 0) != nil }

func TestRunAndClose(t *testing.T) {
	_ = load(t, quick(new(log)), nil).Close() // whatever starts only once
	noLeaks(t, func() {
		in := load(t, quick(new(log)), nil)
		assert.Equal(t, (*trialInstance)(nil).Signature(), in.Signature())
		assert.EqualValues(t, 42, in.Memory())
		for n := 1; n < 5; n++ {
			items := make([][]wire.Tensor, n)
			for i := range items {
				items[i] = []wire.Tensor{wire.FromFloat32([]float32{float32(i)}, 1), wire.FromStrings([]string{"a", ""}, 2)}
			}
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			assert.Equal(t, items, got)
		}
		child := pid(in)
		require.NoError(t, in.Close())
		require.NoError(t, in.Close(), "closing twice is no error")
		assert.True(t, ended(child))
		_, err := in.Run(t.Context(), batch(1))
		assert.ErrorIs(t, err, wire.ErrUnavailable)
		assert.ErrorContains(t, err, "closed")
	})
}

func TestAChildLeadsItsOwnSession(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sessions share processors on Linux only")
	}
	in := load(t, quick(new(log)), nil)
	defer in.Close()
	session, err := unix.Getsid(pid(in))
	require.NoError(t, err)
	assert.Equal(t, pid(in), session)
}

func TestCrashFailsTheBatchAndAllAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		ask  float32
		want []string
	}{
		"panic":       {askPanic, []string{"exit status 2", "panic: asked to panic"}},
		"exit":        {askExit, []string{"exit status 3"}},
		"killed":      {askKill, []string{"signal: killed"}},
		"unavailable": {askUnavailable, []string{"the device fell off"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t, func() {
				out := new(log)
				in := load(t, quick(out), nil)
				first := pid(in)
				_, err := in.Run(t.Context(), batch(c.ask))
				require.ErrorIs(t, err, wire.ErrUnavailable)
				var e *wire.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "detect", e.Stage)
				for _, want := range c.want {
					assert.ErrorContains(t, err, want)
				}
				assert.True(t, ended(first))
				_, again := in.Run(t.Context(), batch(5)) // its owner must load it again
				require.ErrorIs(t, again, wire.ErrUnavailable)
				if name != "unavailable" {
					assert.Equal(t, err, again)
					assert.Equal(t, err, in.AwaitEnd(t.Context()))
				}
				require.NoError(t, in.Close())
				if name == "panic" {
					assert.Contains(t, out.String(), "[trial detect] panic: asked to panic\n")
				}
			})
		})
	}
}

func TestOtherErrorsLeaveTheChildAlone(t *testing.T) {
	in := load(t, quick(new(log)), nil)
	first := pid(in)
	_, err := in.Run(t.Context(), batch(askInvalid))
	assert.ErrorIs(t, err, wire.ErrInvalid)
	assert.ErrorContains(t, err, "at detect: no such number")
	_, err = in.Run(t.Context(), batch(askPlainError))
	assert.ErrorIs(t, err, wire.ErrInternal)
	_, err = in.Run(t.Context(), batch(1))
	require.NoError(t, err)
	assert.Equal(t, first, pid(in))
}

func TestAHangIsEndedByTheContext(t *testing.T) {
	for name, ask := range map[string]float32{"waits": askHang, "spins": askSpin} {
		in := load(t, quick(new(log)), nil)
		first := pid(in)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := in.Run(ctx, batch(ask))
		cancel()
		assert.ErrorIs(t, err, wire.ErrUnavailable, name)
		assert.ErrorContains(t, err, "its caller stopped waiting")
		assert.True(t, ended(first))

		in = load(t, quick(new(log)), nil)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = in.Run(ctx, batch(ask))
		assert.ErrorIs(t, err, wire.ErrCanceled, name)
		require.NoError(t, in.Close())
	}
}

func TestAHangIsEndedByTheRunTimeout(t *testing.T) {
	o := quick(new(log))
	o.RunTimeout = 200 * time.Millisecond
	in := load(t, o, nil)
	_, err := in.Run(t.Context(), batch(askHang))
	assert.ErrorIs(t, err, wire.ErrUnavailable)
	assert.ErrorContains(t, err, `engine "trial" in a child process: it did not answer within 200ms and was killed`)
}

func TestCloseEndsABatchInFlight(t *testing.T) {
	noLeaks(t, func() {
		in := load(t, quick(new(log)), nil)
		time.AfterFunc(50*time.Millisecond, func() { _ = in.Close() })
		_, err := in.Run(t.Context(), batch(askSpin))
		assert.ErrorIs(t, err, wire.ErrUnavailable)
	})
}

func TestKilledFromOutside(t *testing.T) {
	in := load(t, quick(new(log)), nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, in.AwaitEnd(over), "it lives")
	require.NoError(t, syscall.Kill(pid(in), syscall.SIGKILL))
	_, err := in.Run(t.Context(), batch(1))
	assert.ErrorIs(t, err, wire.ErrUnavailable)
	assert.ErrorContains(t, err, "signal: killed")
	assert.Equal(t, err, in.AwaitEnd(t.Context()))
	assert.ErrorIs(t, syscall.Kill(pid(in), 0), syscall.ESRCH, "not even a zombie is left")
}

func TestFailuresToLoad(t *testing.T) {
	for name, c := range map[string]struct {
		parameters map[string]any
		inner      string
		change     func(*Options)
		want       []string
	}{
		"panic":         {parameters: map[string]any{"load": "panic"}, want: []string{`loading module "detect"`, "exit status 2", "panic: cannot load this model"}},
		"error":         {parameters: map[string]any{"load": "error"}, want: []string{"trial: this model is damaged; save it again"}},
		"hang":          {parameters: map[string]any{"load": "hang"}, change: func(o *Options) { o.LoadTimeout = 200 * time.Millisecond }, want: []string{"did not answer within 200ms"}},
		"engine":        {inner: "tpu", want: []string{`serves no engine "tpu"`}},
		"no program":    {change: func(o *Options) { o.Command = []string{"/nonexistent"} }, want: []string{"/nonexistent"}},
		"other program": {change: func(o *Options) { o.Command = []string{"true"} }, want: []string{"exit status 0", "must call local.ChildMain first"}},
		"deaf":          {change: func(o *Options) { o.Env, o.StartTimeout = []string{"CHILD_TEST_DEAF=1"}, 300*time.Millisecond }, want: []string{"no sign of life within 300ms"}},
		"rude":          {change: func(o *Options) { o.Env = []string{"CHILD_TEST_RUDE=1"} }, want: []string{"panic: not today"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t, func() {
				o := quick(new(log))
				if c.change != nil {
					c.change(&o)
				}
				inner := "trial"
				if c.inner != "" {
					inner = c.inner
				}
				_, err := New(inner, o).Load(t.Context(), model(c.parameters))
				for _, want := range c.want {
					assert.ErrorContains(t, err, want)
				}
			})
		})
	}
}

func TestLoadingEndsWithTheContext(t *testing.T) {
	noLeaks(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := New("trial", quick(new(log))).Load(ctx, model(map[string]any{"load": "hang"}))
		assert.Error(t, err)
	})
}

func TestMessagesAreBounded(t *testing.T) {
	o := quick(new(log))
	o.MaxMessage = 64 << 10
	in := load(t, o, nil)
	first := pid(in)
	_, err := in.Run(t.Context(), batch(make([]float32, 1<<16)...))
	assert.ErrorIs(t, err, wire.ErrInvalid)
	assert.ErrorContains(t, err, "raise MaxMessage")
	_, err = in.Run(t.Context(), batch(askLarge))
	assert.ErrorIs(t, err, wire.ErrInternal)
	assert.ErrorContains(t, err, "raise MaxMessage")
	assert.Equal(t, first, pid(in), "neither ends the child")
}

func TestOutputIsForwardedByLines(t *testing.T) {
	out := new(log)
	in := load(t, quick(out), nil)
	_, err := in.Run(t.Context(), batch(askPrint))
	require.NoError(t, err)
	require.NoError(t, in.Close())
	assert.Contains(t, out.String(), "[trial detect] to standard output\n")
	assert.Contains(t, out.String(), "[trial detect] to standard error, without end\n")
}

func TestOneProcessorUnlessAskedOtherwise(t *testing.T) {
	o := quick(new(log))
	got, err := load(t, o, nil).Run(t.Context(), batch(askProcs))
	require.NoError(t, err)
	assert.Equal(t, batch(1), got)
	o.Env = []string{"GOMAXPROCS=2"}
	got, err = load(t, o, nil).Run(t.Context(), batch(askProcs))
	require.NoError(t, err)
	assert.Equal(t, batch(2), got)
}

func TestNameAndVersion(t *testing.T) {
	e := New("trial", quick(new(log)))
	assert.Equal(t, "trial", e.Name())
	assert.Equal(t, "7 (child 2)", e.Version())
	assert.Equal(t, "unknown", New("tpu", quick(new(log))).Version())
	assert.Equal(t, "9 (child 2)", New("trial", Options{Version: "9"}).Version())
}

func TestChildrenEndWithTheirParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	parent.Stderr = os.Stderr
	lines, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(lines).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.False(t, ended(child))
	time.Sleep(50 * time.Millisecond) // likely inside the batch that hangs
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	assert.Eventually(t, func() bool { return ended(child) || zombie(child) }, patience, 10*time.Millisecond)
}

// zombie is true for a process that has ended but was not waited for.
func zombie(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, found := strings.Cut(string(raw), ") ")
	return err == nil && found && strings.HasPrefix(state, "Z")
}
