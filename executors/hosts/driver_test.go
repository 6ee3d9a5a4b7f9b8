package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

// No host runs that is not remembered, and none is forgotten.
func TestHostsOnADiskThatTakesNothing(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			there := t.TempDir()
			p := commandsAt(t, d.Folder, "touch "+there+"/$0", "rm -f "+there+"/$0", time.Minute)
			require.NoError(t, p.Create(t.Context(), "old"))
			remembered := list(t, p)
			require.NoError(t, fault.Begin(d))
			require.Error(t, p.Create(t.Context(), "new"))
			require.Error(t, p.write("old", record{}))
			assert.Equal(t, remembered, list(t, p))
			assert.NoFileExists(t, filepath.Join(there, "new"))
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

func TestAFileThatCannotBeRead(t *testing.T) {
	d := commandsAt(t, t.TempDir(), "true", "true", time.Minute)
	require.NoError(t, d.Create(t.Context(), "cpu-1"))
	require.NoError(t, os.WriteFile(d.path("cpu-2"), []byte("{"), 0o600))
	all, err := d.List()
	assert.ErrorContains(t, err, "end that host and remove the file")
	assert.Len(t, all, 1, "the others are listed all the same")
}

// A worker that an older edition started itself is not taken for one that a command ends.
func TestAProcessOfAnOlderEditionIsNotForgotten(t *testing.T) {
	d := commandsAt(t, t.TempDir(), "true", "true", time.Minute)
	require.NoError(t, os.WriteFile(d.path("cpu-1"), []byte(`{"since":"2026-11-01T10:00:00Z","made":true,"pid":4711,"started":"99"}`), 0o600))
	_, err := d.List()
	assert.ErrorContains(t, err, "started cpu-1 as process 4711, which no command ends: end it and remove "+d.path("cpu-1"))
	assert.ErrorContains(t, d.Delete(t.Context(), "cpu-1"), "end it and remove")
	assert.FileExists(t, d.path("cpu-1"))
}

// commandsAt runs shell scripts, with the name as $0.
func commandsAt(t *testing.T, folder, create, delete string, limit time.Duration) *commands {
	p := Provisioner{Hardware: "cpu", Commands: Commands{Create: []string{"sh", "-c", create}, Delete: []string{"sh", "-c", delete}, Limit: limit}}
	d, err := p.Open(folder)
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
	require.Eventually(t, func() bool { return ended(child) }, time.Minute, 5*time.Millisecond) // other load may hold it up
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

// The script of the example starts a worker that outlives the command, and ends it; for one that
// ends at once it reports why.
func TestTheScriptMakesWorkersOfThisMachine(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "harpagon")
	t.Setenv("HARPAGON", program)
	t.Setenv("WORKERS", filepath.Join(folder, "workers"))
	script := "../../examples/cluster/worker.sh"
	p := Provisioner{Hardware: "cpu", Commands: Commands{Create: []string{script, "create", "--emulate", "cpu=2"}, Delete: []string{script, "delete"}, Limit: time.Minute}}
	d, err := p.Open(folder)
	require.NoError(t, err)
	said := filepath.Join(folder, "said")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>"+said+"\nwhile :; do sleep 0.1; done\n"), 0o700))
	require.NoError(t, d.Create(t.Context(), "cpu-1"))
	text, err := os.ReadFile(filepath.Join(folder, "workers", "cpu-1.pid"))
	require.NoError(t, err)
	worker, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	lives := func() bool { return !ended(worker) }
	assert.True(t, lives())
	text, err = os.ReadFile(said)
	require.NoError(t, err)
	assert.Equal(t, "worker --name cpu-1 --emulate cpu=2\n", string(text))
	require.NoError(t, d.Delete(t.Context(), "cpu-1"))
	assert.False(t, lives())
	assert.Empty(t, list(t, d))

	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho it offers nothing\nexit 1\n"), 0o700))
	assert.ErrorContains(t, d.Create(t.Context(), "cpu-2"), "it offers nothing")
	require.NoError(t, d.Delete(t.Context(), "cpu-2"))
}

// ended reports whether a process runs no more.
func ended(process int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(process)).Output()
	return err != nil || strings.HasPrefix(string(state), "Z")
}
