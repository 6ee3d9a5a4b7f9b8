package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// printed is what commands have printed.
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

// numbers that follow a word.
func numbers(text, word string) (all []int) {
	for _, m := range regexp.MustCompile(word+` (\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		all = append(all, n)
	}
	return all
}

func load(t testing.TB, o Options, m executors.Model) *instance {
	in, err := New(o).Load(t.Context(), m)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	if ahead, ok := in.(*aheadInstance); ok {
		return ahead.instance
	}
	return in.(*instance)
}

func rows(values ...float32) [][]wire.Tensor {
	items := make([][]wire.Tensor, len(values))
	for i, v := range values {
		items[i] = []wire.Tensor{wire.FromFloat32([]float32{v}, 1)}
	}
	return items
}

// asked sends a batch and returns the process id that answered.
func asked(t *testing.T, in executors.Instance, values ...float32) int64 {
	answers, err := in.Run(t.Context(), rows(values...))
	require.NoError(t, err)
	var pid int64
	for i, a := range answers {
		y, err := a[0].Int64s()
		require.NoError(t, err)
		require.EqualValues(t, values[i], y[0])
		pid = y[1]
	}
	return pid
}

// gone waits until processes have ended.
func gone(t *testing.T, pids ...int) {
	for _, pid := range pids {
		assert.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || bytes.Contains(stat, []byte(") Z ")) // it was not waited for
		}, 20*time.Second, 5*time.Millisecond, "process %d lives", pid)
	}
}

func TestACommandServes(t *testing.T) {
	for _, how := range []string{"http", "grpc"} {
		t.Run(how, func(t *testing.T) {
			var out printed
			m := model(how)
			m.Hardware = "cpu"
			in := load(t, Options{Output: &out}, m)
			pid := asked(t, in, 1, 2, 3)
			require.Equal(t, pid, asked(t, in, 4))
			require.Contains(t, out.String(), fmt.Sprintf("[process mod] command %d 1 4 \n", pid))
			require.Equal(t, []int64{2}, in.Signature().Outputs[0].Shape)
			folder := in.server.folder
			require.NoError(t, in.Close())
			require.NoError(t, in.Close())
			gone(t, int(pid))
			require.NoFileExists(t, folder)
			_, err := in.Run(t.Context(), rows(1))
			require.ErrorIs(t, err, wire.ErrUnavailable)
			require.ErrorContains(t, err, "exit status 0")
		})
	}
}

func TestACommandThatEndsReportsHow(t *testing.T) {
	o := Options{Output: new(printed), endTime: time.Minute}
	in := load(t, o, model("http"))
	asked(t, in, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, in.AwaitEnd(over), "it lives")
	for range 2 { // its owner must load it again
		_, err := in.Run(t.Context(), rows(-1))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorContains(t, err, "exit status 7, saying: fatal: the GPU has gone")
		require.Equal(t, err, in.AwaitEnd(t.Context()))
	}

	in = load(t, o, model("http"))
	require.NoError(t, syscall.Kill(int(asked(t, in, 2)), syscall.SIGKILL)) // while it is idle
	require.ErrorContains(t, in.AwaitEnd(t.Context()), "signal: killed")
}

func TestABatchThatHangsIsUnavailable(t *testing.T) {
	o := Options{RunTimeout: 2 * time.Second, Output: new(printed)}
	in := load(t, o, model("http"))
	_, err := in.Run(t.Context(), rows(-2))
	require.ErrorIs(t, err, wire.ErrUnavailable)
	require.ErrorContains(t, err, "has not answered within 2s")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = in.Run(ctx, rows(-2))
	require.ErrorIs(t, err, wire.ErrCanceled)
	_, err = load(t, o, model("http")).Run(t.Context(), rows(1, 2, 3, 4, 5))
	require.ErrorIs(t, err, wire.ErrInvalid)
}

// TestACommandThatHangsIsKilled: a command whose caller has stopped waiting is killed without
// SIGTERM, which it might ignore.
func TestACommandThatHangsIsKilled(t *testing.T) {
	in := load(t, Options{StopTimeout: time.Hour, Output: new(printed)}, model("stubborn"))
	first := asked(t, in, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := in.Run(ctx, rows(-2))
	require.ErrorIs(t, err, wire.ErrUnavailable)
	require.ErrorContains(t, err, "was killed")
	gone(t, int(first))
}

func TestCommandsThatDoNotServe(t *testing.T) {
	o := Options{StartTimeout: 20 * time.Second, Output: new(printed)}
	_, err := New(o).Load(t.Context(), model("missing"))
	require.ErrorContains(t, err, "exit status 3, saying: no module named torch")
	m := model("http")
	m.Module.Command = []string{"/no/such/program"}
	_, err = New(o).Load(t.Context(), m)
	require.ErrorContains(t, err, "it could not be started: fork/exec /no/such/program: no such file")
	_, err = New(o).Load(t.Context(), model("garbage"))
	require.ErrorContains(t, err, "cannot be read")
	m.Module.Command = nil
	_, err = New(o).Load(t.Context(), m)
	require.ErrorContains(t, err, "has no command")

	o.StartTimeout = 200 * time.Millisecond
	_, err = New(o).Load(t.Context(), model("silent"))
	require.ErrorContains(t, err, "nothing answers on its socket within 200ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = New(o).Load(ctx, model("silent"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestNothingOutlivesAnInstance(t *testing.T) {
	for _, how := range []string{"family", "stubborn"} {
		t.Run(how, func(t *testing.T) {
			var out printed
			in := load(t, Options{Output: &out, StopTimeout: 200 * time.Millisecond}, model(how))
			pid := asked(t, in, 1)
			require.NoError(t, in.Close())
			all := numbers(out.String(), "grandchild")
			require.Len(t, all, 2)
			if runtime.GOOS != "linux" {
				all = all[1:] // what has left the group cannot be found elsewhere
			}
			gone(t, append(all, int(pid))...)
		})
	}
}

func TestNothingOutlivesAKilledExecutor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), victim+"=family")
	said, err := c.StdoutPipe()
	require.NoError(t, err)
	c.Stderr = c.Stdout
	require.NoError(t, c.Start())
	var text string
	for in := bufio.NewReader(said); !strings.Contains(text, "loaded <nil>\n"); {
		line, err := in.ReadString('\n')
		require.NoError(t, err, text)
		text += line
	}
	all := append(numbers(text, "grandchild"), numbers(text, "command")...)
	require.Len(t, all, 3)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	gone(t, all...)
}

// The server of examples/process, which needs nothing but Python.
func TestTheExampleInPython(t *testing.T) {
	if exec.Command("python3", "-c", "import http.server").Run() != nil {
		t.Skip("python3 is missing: the example server is not tested")
	}
	script, err := filepath.Abs("../../examples/process/classify.py")
	require.NoError(t, err)
	var out printed
	in := load(t, Options{Output: &out}, executors.Model{
		Module: pipelines.Module{Name: "flowers", Command: []string{"python3", "-B", script}}, Batches: []int{1, 4}, MaxBatch: 4,
	})
	item := func(v ...float32) []wire.Tensor { return []wire.Tensor{wire.FromFloat32(v)} }
	answers, err := in.Run(t.Context(), [][]wire.Tensor{item(5.1, 3.5, 1.4, 0.2), item(6.3, 3.3, 6, 2.5), item(6, 2.7, 3.6, 1.3)})
	require.NoError(t, err)
	var labels []string
	for _, a := range answers {
		s, err := a[0].Strings()
		require.NoError(t, err)
		labels = append(labels, s...)
		require.Equal(t, []int64{3}, a[1].Shape)
	}
	require.Equal(t, []string{"short", "long", "middling"}, labels)
	_, err = in.server.model.Run(t.Context(), [][]wire.Tensor{{wire.FromInt64([]int64{1, 2, 3, 4})}})
	require.ErrorIs(t, err, wire.ErrInvalid)
	folder := in.server.folder
	require.NoError(t, in.Close())
	require.NoFileExists(t, folder)
}

// The PyTorch example, where PyTorch is installed.
func TestTheExampleInPyTorch(t *testing.T) {
	python := os.Getenv("HARPAGON_TORCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.Command(python, "-c", "import torch, numpy").Run() != nil {
		t.Skip("PyTorch is missing: its example is not tested; HARPAGON_TORCH_PYTHON names an interpreter that has it")
	}
	script, err := filepath.Abs("../../examples/process/torch_mlp.py")
	require.NoError(t, err)
	in := load(t, Options{Output: new(printed)}, executors.Model{
		Module: pipelines.Module{Name: "mlp", Command: []string{python, "-B", script}}, Batches: []int{1, 8}, MaxBatch: 8, Hardware: "cpu",
	})
	x := wire.FromFloat32(make([]float32, 1024))
	answers, err := in.Run(t.Context(), [][]wire.Tensor{{x}, {x}})
	require.NoError(t, err)
	require.Equal(t, []int64{10}, answers[1][0].Shape)
	require.Equal(t, answers[0][0].Data, answers[1][0].Data)
}

// TestNothingLeaks runs many batches, and commands that crash.
func TestNothingLeaks(t *testing.T) {
	batches, crashes := 500, 3
	if os.Getenv("HARPAGON_LONG") != "" {
		batches, crashes = 10_000, 20
	}
	o := Options{Output: new(printed), endTime: time.Minute}
	in := load(t, o, model("http"))
	run := func(n, crashes int) {
		for i := range n {
			_, err := in.Run(t.Context(), rows(1, 2, float32(i%9)))
			require.NoError(t, err)
		}
		for range crashes {
			_, err := in.Run(t.Context(), rows(-1))
			require.ErrorIs(t, err, wire.ErrUnavailable)
			require.NoError(t, in.Close())
			in = load(t, o, model("http"))
			asked(t, in, 1)
		}
	}
	count := func() (int, int) {
		least := runtime.NumGoroutine()
		for range 50 {
			time.Sleep(2 * time.Millisecond)
			least = min(least, runtime.NumGoroutine())
		}
		files, _ := os.ReadDir("/proc/self/fd")
		return least, len(files)
	}
	run(50, 1)
	goroutines, files := count()
	run(batches, crashes)
	more, open := count()
	t.Logf("after %d batches and %d crashes: goroutines %d, was %d; files %d, was %d", batches, crashes, more, goroutines, open, files)
	require.LessOrEqual(t, more, goroutines+3)
	require.LessOrEqual(t, open, files+3)
}

// TestWhatWasMeasuredServes: an instance that is kept is reused by a load of the same model on its device only, and is
// closed where another cannot be loaded beside it.
func TestWhatWasMeasuredServes(t *testing.T) {
	e := New(Options{Output: new(printed)})
	m := model("http", 1, 2, 4)
	m.Device, m.Module.Content = "gpu/a", []pipelines.File{{Path: "serve.py", Digest: "sha256:1"}}
	keep := func() int64 {
		in, err := e.Load(t.Context(), m)
		require.NoError(t, err)
		pid := asked(t, in, 1)
		in.(executors.Keeper).Keep()
		return pid
	}
	pid := keep()
	smaller := m
	smaller.Batches, smaller.MaxBatch = []int{1, 2}, 2
	smaller.Module.Profile.Points = []pipelines.Point{{Hardware: "h", Batch: 1, Duration: time.Second}}
	in, err := e.Load(t.Context(), smaller)
	require.NoError(t, err)
	require.Equal(t, pid, asked(t, in, 1))
	other, err := e.Load(t.Context(), smaller)
	require.NoError(t, err)
	require.NotEqual(t, pid, asked(t, other, 1), "there was one")
	require.NoError(t, in.Close())
	require.NoError(t, other.Close())
	gone(t, int(pid))

	for name, change := range map[string]func(*executors.Model){
		"a file":       func(m *executors.Model) { m.Module.Content = []pipelines.File{{Path: "serve.py", Digest: "sha256:2"}} },
		"no digests":   func(m *executors.Model) { m.Module.Content = nil },
		"another size": func(m *executors.Model) { m.Batches = []int{1, 3} },
		"larger":       func(m *executors.Model) { m.MaxBatch = 8 },
		"outputs":      func(m *executors.Model) { m.Outputs = nil },
		"arguments":    func(m *executors.Model) { m.Module.Command = append(slices.Clone(m.Module.Command), "more") },
	} {
		pid, changed := keep(), m
		change(&changed)
		in, err := e.Load(t.Context(), changed)
		require.NoError(t, err)
		require.NotEqual(t, pid, asked(t, in, 1), name)
		require.NoError(t, in.Close())
		require.Len(t, e.(*engine).kept.all, 1, name)
		changed.Module.Command = []string{"/no/such/program"}
		_, err = e.Load(t.Context(), changed)
		require.ErrorContains(t, err, "/no/such/program", name)
		gone(t, int(pid))
	}
	pid = keep()
	elsewhere := m
	elsewhere.Device = "gpu/b"
	in, err = e.Load(t.Context(), elsewhere)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	in, err = e.Load(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, pid, asked(t, in, 1), "other devices are of no concern")
	in.(executors.Keeper).Keep()
	require.NoError(t, syscall.Kill(int(pid), syscall.SIGKILL))
	gone(t, int(pid))
	in, err = e.Load(t.Context(), m)
	require.NoError(t, err)
	require.NotEqual(t, pid, asked(t, in, 1))
	require.NoError(t, in.Close())
}

// TestSeveralThatWereMeasuredServe keeps the instances of batches side by side until as many are loaded.
func TestSeveralThatWereMeasuredServe(t *testing.T) {
	e := New(Options{Output: new(printed)})
	m := model("http")
	m.Device, m.Module.Content = "gpu/a", []pipelines.File{{Path: "serve.py", Digest: "sha256:1"}}
	loaded := func(n int) (all []executors.Instance, pids []int64) {
		for range n {
			in, err := e.Load(t.Context(), m)
			require.NoError(t, err)
			all, pids = append(all, in), append(pids, asked(t, in, 1))
		}
		return all, pids
	}
	var before []int64
	for n := 1; n <= 3; n++ {
		all, pids := loaded(n)
		require.Subset(t, pids, before)
		before = pids
		for _, in := range all {
			in.(executors.Keeper).Keep()
		}
	}
	all, pids := loaded(2)
	require.Subset(t, before, pids)
	for _, in := range all {
		require.NoError(t, in.Close())
	}
	require.True(t, e.(*engine).kept.free("gpu/a"), "the third")
}

// TestACommandSeesItsGPU: a command receives its device, and what it may use of the machine.
func TestACommandSeesItsGPU(t *testing.T) {
	m := model("http", 2, 8)
	m.Device = "gpu/GPU-1"
	s := &server{folder: "/tmp/f", options: new(Options)}
	for _, want := range []string{"HARPAGON_DEVICE=gpu/GPU-1", "CUDA_VISIBLE_DEVICES=GPU-1", "HARPAGON_BATCHES=2,8", "HARPAGON_MAX_BATCH=8", "HARPAGON_SOCKET=/tmp/f/s"} {
		require.Contains(t, s.launch(m).Env, want)
	}
	t.Setenv("PYTHONPATH", "/mine")
	require.Contains(t, s.launch(m).Env, "PYTHONPATH=/tmp/f:/mine")
}
