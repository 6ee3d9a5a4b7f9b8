package hosts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

// The test's own program stands in for harpagon.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "worker" && os.Args[2] == "--name" {
		pretend(os.Args[4:])
	}
	os.Exit(m.Run())
}

func pretend(flags []string) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("worker", os.Args[3], "with", flags)
	switch strings.Join(flags, " ") {
	case "break":
		fmt.Println("it offers nothing")
		os.Exit(1)
	case "stubborn":
		select {}
	}
	<-told
	os.Exit(0)
}

func processesAt(t *testing.T, folder string, flags ...string) *processes {
	p := Provisioner{Hardware: "cpu", Process: &Process{Flags: flags}}
	d, err := p.Open(folder, "")
	require.NoError(t, err)
	return d.(*processes)
}

// No host runs that is not remembered, and none is forgotten.
func TestHostsOnADiskThatTakesNothing(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			p := processesAt(t, d.Folder)
			require.NoError(t, p.write("old", record{Since: time.Now(), Made: true, PID: os.Getpid(), Started: "before"})) // a process that has ended
			remembered := list(t, p)
			require.NoError(t, fault.Begin(d))
			require.Error(t, p.Create(t.Context(), "new"))
			require.Error(t, p.write("old", record{}))
			assert.Equal(t, remembered, list(t, p))
			require.NoError(t, fault.End(d))
			require.NoError(t, p.Delete(t.Context(), "new"))
			require.NoError(t, p.Create(t.Context(), "new"))
			assert.Len(t, list(t, p), 2)
			require.NoError(t, p.Delete(t.Context(), "new"))
			require.NoError(t, p.Delete(t.Context(), "old"))
			assert.Empty(t, list(t, p))
		})
	}
}

// eventually waits: other load may hold a process up.
func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, time.Minute, 5*time.Millisecond)
}

func list(t *testing.T, d Driver) []HostRecord {
	t.Helper()
	all, err := d.List()
	require.NoError(t, err)
	for i := range all {
		assert.False(t, all[i].Since.IsZero())
		all[i].Since = time.Time{}
	}
	return all
}

// A worker outlives the process that started it, and the next one takes it over.
func TestAProcessIsAdoptedAndEnded(t *testing.T) {
	folder := t.TempDir()
	first := processesAt(t, folder, "a", "b")
	require.NoError(t, first.Create(t.Context(), "cpu-1"))
	eventually(t, func() bool { return first.said("cpu-1") == "worker cpu-1 with [a b]" })
	of, _, err := first.read("cpu-1")
	require.NoError(t, err)
	group, err := syscall.Getpgid(of.PID)
	require.NoError(t, err)
	assert.Equal(t, of.PID, group, "a group of its own")

	next := processesAt(t, folder)
	assert.Equal(t, []HostRecord{{Name: "cpu-1"}}, list(t, next))
	require.NoError(t, next.Delete(t.Context(), "cpu-1"))
	assert.Empty(t, list(t, next))
	assert.Empty(t, began(of.PID))
	left, err := os.ReadDir(next.folder)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, next.Delete(t.Context(), "cpu-1"), "it is not there")
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	d := processesAt(t, t.TempDir(), "stubborn")
	d.grace = 100 * time.Millisecond
	require.NoError(t, d.Create(t.Context(), "cpu-1"))
	eventually(t, func() bool { return d.said("cpu-1") != "" })
	late, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorContains(t, d.Delete(late, "cpu-1"), "has not ended yet")
	assert.Equal(t, []HostRecord{{Name: "cpu-1", Going: true}}, list(t, d), "it is not forgotten")
	require.NoError(t, d.Delete(t.Context(), "cpu-1"))
	assert.Empty(t, list(t, d))
}

func TestAProcessThatBreaksSaysWhy(t *testing.T) {
	d := processesAt(t, t.TempDir(), "break")
	require.NoError(t, d.Create(t.Context(), "cpu-1"))
	eventually(t, func() bool { return list(t, d)[0].Ended != "" })
	assert.Equal(t, "its process has ended: it offers nothing", list(t, d)[0].Ended)
	require.NoError(t, d.Delete(t.Context(), "cpu-1"))
	assert.Empty(t, list(t, d))
}

// A process whose number is on file, but that began at another time, is somebody else's.
func TestANumberThatWasUsedAgain(t *testing.T) {
	d := processesAt(t, t.TempDir())
	other := exec.Command("sleep", "600")
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	require.NoError(t, d.write("cpu-1", record{Since: time.Now(), Made: true, PID: other.Process.Pid, Started: "1"}))
	require.NoError(t, d.write("cpu-2", record{Since: time.Now(), Made: true})) // killed before it had a number
	all := list(t, d)
	assert.Equal(t, []string{"its process has ended", "its process has ended"}, []string{all[0].Ended, all[1].Ended})
	require.NoError(t, d.Delete(t.Context(), "cpu-1"))
	require.NoError(t, d.Delete(t.Context(), "cpu-2"))
	assert.NotEmpty(t, began(other.Process.Pid), "it was left alone")
}

// A shell that was not told to go on does not become a worker.
func TestAWorkerWaitsUntilItIsOnFile(t *testing.T) {
	out, err := exec.Command("/bin/sh", "-c", once, "sh", "echo", "runs").CombinedOutput() // its input ends at once
	assert.Error(t, err)
	assert.Empty(t, string(out))
	told := exec.Command("/bin/sh", "-c", once, "sh", "echo", "runs")
	told.Stdin = strings.NewReader("go\n")
	out, err = told.CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "runs\n", string(out))
}

func TestAFileThatCannotBeRead(t *testing.T) {
	d := processesAt(t, t.TempDir())
	require.NoError(t, d.write("cpu-1", record{Since: time.Now()}))
	require.NoError(t, os.WriteFile(d.path("cpu-2"), []byte("{"), 0o600))
	all, err := d.List()
	assert.ErrorContains(t, err, "end that host and remove the file")
	assert.Len(t, all, 1, "the others are told all the same")
}

// commandsAt runs shell scripts, with the name as $0.
func commandsAt(t *testing.T, folder, create, delete string, limit time.Duration) *commands {
	p := Provisioner{Hardware: "cpu", Commands: &Commands{Create: []string{"sh", "-c", create}, Delete: []string{"sh", "-c", delete}, Limit: limit}}
	d, err := p.Open(folder, "")
	require.NoError(t, err)
	return d.(*commands)
}

func TestCommands(t *testing.T) {
	folder, there := t.TempDir(), t.TempDir()
	d := commandsAt(t, folder, "touch "+there+"/$0", "rm "+there+"/$0", time.Minute)
	require.NoError(t, d.Create(t.Context(), "cpu-1"))
	assert.FileExists(t, filepath.Join(there, "cpu-1"))
	assert.Equal(t, []HostRecord{{Name: "cpu-1"}}, list(t, d))

	broken := commandsAt(t, folder, "echo no quota left >&2; exit 3", "echo the cloud is away; exit 4", time.Minute)
	assert.ErrorContains(t, broken.Create(t.Context(), "cpu-2"), "exit status 3: no quota left")
	assert.ErrorContains(t, broken.Delete(t.Context(), "cpu-1"), "exit status 4: the cloud is away")
	all := list(t, d)
	require.Len(t, all, 2)
	assert.Equal(t, HostRecord{Name: "cpu-1", Going: true}, all[0], "what could not be deleted is not forgotten")
	assert.Contains(t, all[1].Ended, "no quota left", "nor what could not be made")

	require.NoError(t, d.Delete(t.Context(), "cpu-1"))
	assert.NoFileExists(t, filepath.Join(there, "cpu-1"))
	require.NoError(t, d.write("cpu-3", record{Since: time.Now()}))
	assert.Equal(t, "the command that creates it was not finished", list(t, d)[1].Ended)
}

// A command that hangs is ended, with the processes that it has started.
func TestACommandThatHangsIsEnded(t *testing.T) {
	at := filepath.Join(t.TempDir(), "child")
	d := commandsAt(t, t.TempDir(), "sleep 600 & echo $! > "+at+"; echo begun; wait", "true", 500*time.Millisecond)
	err := d.Create(t.Context(), "cpu-1")
	require.ErrorContains(t, err, "was ended after 500ms, its limit")
	text, err := os.ReadFile(at)
	if err != nil { // other load: it was ended before it had begun
		return
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	eventually(t, func() bool { return began(child) == "" })
}

func TestTailKeepsTheEnd(t *testing.T) {
	var to tail
	for range 3 {
		_, err := to.Write(make([]byte, outputKept-1))
		require.NoError(t, err)
	}
	n, err := to.Write([]byte(strings.Repeat("x", outputKept) + "\nthe end\n"))
	require.NoError(t, err)
	assert.Equal(t, outputKept+9, n)
	assert.LessOrEqual(t, len(to.kept), outputKept)
	assert.Equal(t, "the end", lastLine(to.kept))
}
