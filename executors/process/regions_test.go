package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// rowsModel is that of testdata/rows.py, with its outputs sum and echo.
func rowsModel(t testing.TB) executors.Model {
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	m := inPython(t, "rows.py", 1, 8)
	m.Outputs, m.Feeds = []string{"sum", "echo", "name"}, map[string]pipelines.Port{"x": {Name: "x", Datatype: wire.Uint8, Shape: []int64{16}}}
	return m
}

func bytesOf(n int, v byte) []wire.Tensor {
	return []wire.Tensor{{Datatype: wire.Uint8, Shape: []int64{int64(n)}, Data: bytes.Repeat([]byte{v}, n)}}
}

// mapped counts the shared memory that a process has mapped.
func mapped(t testing.TB, pid int) int {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	return strings.Count(string(maps), "/memfd:harpagon")
}

// sums are the answers without the process's number.
func sums(t *testing.T, answers [][]wire.Tensor) (all []string) {
	for _, a := range answers {
		v, err := a[0].Int64s()
		require.NoError(t, err)
		name, err := a[2].Strings()
		require.NoError(t, err)
		all = append(all, fmt.Sprint(v[0], a[1].Shape, len(a[1].Data), name))
	}
	return all
}

// TestSharedMemoryAnswersAsTheSocket sends the same batches both ways. Their shapes vary, so that regions are
// replaced by larger ones.
func TestSharedMemoryAnswersAsTheSocket(t *testing.T) {
	for _, placed := range []string{"", "1"} {
		t.Setenv("HARPAGON_TEST_PLACED", placed)
		shared, travels := load(t, Options{Output: new(printed)}, rowsModel(t)), load(t, Options{Output: new(printed), unshared: true}, rowsModel(t))
		rng := rand.New(rand.NewPCG(7, 7))
		for range 60 {
			items := make([][]wire.Tensor, 1+rng.IntN(8))
			for i := range items {
				items[i] = bytesOf([]int{0, 1, 63, 64, 65, 5000, 300_000}[rng.IntN(7)], byte(rng.IntN(200)))
			}
			a, err := shared.Run(t.Context(), items)
			require.NoError(t, err)
			b, err := travels.Run(t.Context(), items)
			require.NoError(t, err)
			require.Equal(t, sums(t, b), sums(t, a))
		}
		require.Equal(t, 1, mapped(t, os.Getpid()), "what was too small is gone")
		require.Positive(t, shared.Memory())
		require.NoError(t, shared.Close())
		require.Zero(t, mapped(t, os.Getpid()))
	}
}

// TestTheNextBatchIsThere has a batch staged while one is computed: each has a region for itself.
func TestTheNextBatchIsThere(t *testing.T) {
	in := &aheadInstance{load(t, Options{Output: new(printed)}, rowsModel(t))}
	for range 20 {
		first, err := in.Stage([][]wire.Tensor{bytesOf(70_000, 1), bytesOf(70_000, 2)})
		require.NoError(t, err)
		second, err := in.Stage([][]wire.Tensor{bytesOf(70_000, 3)})
		require.NoError(t, err)
		a, err := first(t.Context())
		require.NoError(t, err)
		b, err := second(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"70000 [70000] 70000 [row70000]", "140000 [70000] 70000 [row70000]"}, sums(t, a))
		require.Equal(t, []string{"210000 [70000] 70000 [row70000]"}, sums(t, b))
	}
	require.LessOrEqual(t, mapped(t, os.Getpid()), 2)
	stuck, err := in.Stage([][]wire.Tensor{bytesOf(9, 254)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = stuck(ctx)
	require.ErrorIs(t, err, wire.ErrUnavailable)
	_, err = in.Stage([][]wire.Tensor{bytesOf(9, 1)})
	require.ErrorContains(t, err, "was killed")
}

// TestSizesThatFitAreMeasured has a device with too little memory for the largest batches.
func TestSizesThatFitAreMeasured(t *testing.T) {
	t.Setenv("HARPAGON_TEST_FITS", "5")
	m := rowsModel(t)
	var notices []string
	e := New(Options{Output: new(printed)})
	defer e.(*engine).kept.free("cpu/0")
	h := &executors.Host{Engines: []executors.Engine{e}, Notice: func(s string) { notices = append(notices, s) }}
	task := executors.MeasureTask{
		Module: m.Module, Hardware: "cpu", Device: "cpu/0", Batches: []int{1, 4, 8}, Feeds: m.Feeds,
		Limits: executors.RoundLimits{Warmups: 1, MinRuns: 1, MaxRuns: 3, MinTime: 1, MaxTime: 1, Patience: 1},
	}
	task.Module.Engine = "process"
	points, err := h.Measure(t.Context(), task, executors.Measured{}, nil)
	require.NoError(t, err)
	require.Len(t, points, 2)
	require.Equal(t, 4, points[1].Batch)
	require.Positive(t, points[1].MemoryMiB)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], `module "mod" cannot run batches of 8 on cpu: `)
	require.Contains(t, notices[0], "CUDA out of memory at 8")
	again, err := h.Measure(t.Context(), task, executors.Measured{Points: points}, nil)
	require.NoError(t, err)
	require.Equal(t, points, again)

	t.Setenv("HARPAGON_TEST_FITS", "0")
	task.Batches = []int{1}
	_, err = h.Measure(t.Context(), task, executors.Measured{}, nil)
	require.ErrorIs(t, err, wire.ErrOverloaded, "none fits")
	require.Zero(t, mapped(t, os.Getpid()), "nothing is left of what could not be loaded")
}

// TestBatchesThatFailLeaveTheRest holds what becomes of an error of the model, and of a command that ends while it has
// a region.
func TestBatchesThatFailLeaveTheRest(t *testing.T) {
	in := load(t, Options{Output: new(printed), endTime: time.Minute}, rowsModel(t))
	for v, want := range map[byte]string{253: "a row that cannot be computed", 252: "RuntimeError: CUDA out of memory"} {
		_, err := in.Run(t.Context(), [][]wire.Tensor{bytesOf(4, 1), bytesOf(4, v)})
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, wire.ErrUnavailable, "each is tried by itself then")
		answers, err := in.Run(t.Context(), [][]wire.Tensor{bytesOf(4, 1)})
		require.NoError(t, err)
		require.Equal(t, []string{"4 [4] 4 [row4]"}, sums(t, answers))
	}
	_, err := in.Run(t.Context(), [][]wire.Tensor{bytesOf(9, 255)})
	require.ErrorContains(t, err, "exit status 7, saying: fatal: the GPU has gone")
	require.NoError(t, in.Close())
	require.Zero(t, mapped(t, os.Getpid()))
}

// TestNothingIsLeftOfWhoIsKilled kills commands and executors with signal 9 at any moment of a region's life:
// before it is made, while it is registered, written, computed on, read, replaced and given up. HARPAGON_KILLS is how
// often, an even number.
func TestNothingIsLeftOfWhoIsKilled(t *testing.T) {
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("HARPAGON_KILLS")); err == nil {
		kills = n
	}
	m := rowsModel(t)
	t.Setenv("TMPDIR", t.TempDir())
	folder := os.TempDir()
	rng := rand.New(rand.NewPCG(uint64(kills), 3))
	took := lifeOf(t, m, nil)
	for i := range kills {
		at := time.Duration(rng.Int64N(int64(took)))
		if i%2 == 0 {
			var once sync.Once
			lifeOf(t, m, func(pid int) {
				once.Do(func() { time.AfterFunc(at/2, func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) })
			})
		} else {
			killVictim(t, at)
		}
		require.Zero(t, mapped(t, os.Getpid()), "kill %d after %v", i, at)
		require.Eventually(t, func() bool {
			left, err := filepath.Glob(folder + "/harpagon-*")
			return err == nil && len(left) == 0
		}, 20*time.Second, 5*time.Millisecond, "kill %d after %v: a folder is left", i, at)
	}
}

// lifeOf loads a command, runs batches that need larger regions every time, two of them at once, and closes it. began
// is called with the command's pid. It returns how long that took.
func lifeOf(t *testing.T, m executors.Model, began func(pid int)) time.Duration {
	begin := time.Now()
	in, err := New(Options{Output: new(printed), endTime: time.Minute}).Load(t.Context(), m)
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	answers, err := in.Run(t.Context(), [][]wire.Tensor{bytesOf(1, 1)})
	require.NoError(t, err)
	v, err := answers[0][0].Int64s()
	require.NoError(t, err)
	if began != nil {
		began(int(v[1]))
	}
	for n := 1 << 15; n < 1<<20; n *= 2 {
		staged, err := in.(*aheadInstance).Stage([][]wire.Tensor{bytesOf(n, 1)})
		if err == nil {
			_, err = staged(t.Context())
		}
		if began == nil {
			require.NoError(t, err)
		} else if err != nil {
			require.ErrorIs(t, err, wire.ErrUnavailable)
		}
		if err != nil {
			break
		}
	}
	return time.Since(begin)
}

// killVictim kills an executor, and waits until nothing of it is left.
func killVictim(t *testing.T, at time.Duration) {
	c := exec.Command(os.Args[0])
	script, err := filepath.Abs("testdata/rows.py")
	require.NoError(t, err)
	c.Env = append(os.Environ(), victim+"="+script)
	require.NoError(t, c.Start())
	time.Sleep(at)
	children := descendants(c.Process.Pid)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	gone(t, children...)
}

// descendants are the processes below one.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
