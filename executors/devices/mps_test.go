package devices

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/subprocess"
)

func TestMain(m *testing.M) {
	subprocess.Supervise()
	if len(os.Args) > 1 && os.Args[1] == "MPS_TEST_VICTIM" {
		_, err := StartMPS(context.Background(), MPSOptions{})
		os.Stdout.WriteString("started\n")
		if err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

// standIn does as much of the control program as is needed: -f serves, commands come by standard input, and it fails
// where no daemon serves in the folder.
const standIn = `#!/bin/sh
dir="${CUDA_MPS_PIPE_DIRECTORY:-$DEFAULT_MPS}"
case "$1" in
-f)
	case "$HOW" in
	broken) echo "An instance of this daemon is already running" >&2; exit 1 ;;
	deaf) trap '' TERM ;;
	esac
	[ "$CUDA_MPS_LOG_DIRECTORY" = "$dir" ] || exit 9
	echo $$ > "$dir/pid"
	sleep 300 &
	while [ ! -e "$dir/quit" ]; do sleep 0.02; done
	echo "Exit" > "$TOLD"
	exit 0 ;;
esac
read command
[ -e "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null || { echo "Cannot find MPS control daemon process"; exit 1; }
[ "$command" = quit ] && [ "$HOW" != deaf ] && touch "$dir/quit"
exit 0
`

type printed struct {
	mu sync.Mutex
	bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Buffer.Write(b)
}

// control puts the stand-in on the PATH and returns a folder for temporary files.
func control(t *testing.T, how string) string {
	bin, tmp := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, mpsControl), []byte(standIn), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOW", how)
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TOLD", filepath.Join(t.TempDir(), "told"))
	t.Setenv("DEFAULT_MPS", filepath.Join(t.TempDir(), "none"))
	return tmp
}

func left(t *testing.T, tmp string) []string {
	all, err := filepath.Glob(filepath.Join(tmp, "harpagon-mps-*"))
	require.NoError(t, err)
	return all
}

func TestMPSIsStartedAndEnded(t *testing.T) {
	for _, how := range []string{"", "deaf"} {
		t.Run(how, func(t *testing.T) {
			tmp := control(t, how)
			m, err := StartMPS(t.Context(), MPSOptions{Output: new(printed)})
			require.NoError(t, err)
			require.Contains(t, m.Describe(), "MPS: started "+os.Getenv("PATH")[:5])
			folders := left(t, tmp)
			require.Len(t, folders, 1)
			require.Equal(t, []string{"CUDA_MPS_PIPE_DIRECTORY=" + folders[0]}, m.Env())
			require.NoError(t, m.ask(t.Context(), "get_server_list"))
			m.Stop()
			m.Stop()
			require.Empty(t, left(t, tmp))
			_, err = os.Stat(os.Getenv("TOLD"))
			require.Equal(t, how == "deaf", os.IsNotExist(err), "it receives quit first")
		})
	}
}

func TestMPSThatRunsIsUsed(t *testing.T) {
	tmp := control(t, "")
	running := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", running)
	t.Setenv("CUDA_MPS_LOG_DIRECTORY", running)
	other := exec.Command(mpsControl, "-f")
	require.NoError(t, other.Start())
	defer func() {
		require.NoError(t, os.WriteFile(filepath.Join(running, "quit"), nil, 0o600))
		require.NoError(t, other.Wait(), "it goes on until its own end")
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(running, "pid")); return err == nil }, 20*time.Second, 5*time.Millisecond)
	m, err := StartMPS(t.Context(), MPSOptions{Output: new(printed)})
	require.NoError(t, err)
	require.Equal(t, "MPS: using the daemon that is running", m.Describe())
	require.Empty(t, m.Env(), "the environment has its path")
	require.Empty(t, left(t, tmp))
	m.Stop()
}

func TestMPSThatCannotBeHad(t *testing.T) {
	tmp := control(t, "broken")
	_, err := StartMPS(t.Context(), MPSOptions{Output: new(printed)})
	require.ErrorContains(t, err, "nvidia-cuda-mps-control -f does not serve: it ended with exit status 1, saying: An instance of this daemon is already running")
	require.Empty(t, left(t, tmp))

	t.Setenv("PATH", t.TempDir())
	_, err = StartMPS(t.Context(), MPSOptions{})
	require.ErrorContains(t, err, `"nvidia-cuda-mps-control": executable file not found in $PATH; it comes with NVIDIA's driver`)
}

// TestMPSEndsWithWhoIsKilled kills the program that has started the daemon.
func TestMPSEndsWithWhoIsKilled(t *testing.T) {
	tmp := control(t, "")
	c := exec.Command(os.Args[0], "MPS_TEST_VICTIM")
	said, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line := make([]byte, 8)
	_, err = said.Read(line)
	require.NoError(t, err)
	require.Equal(t, "started", strings.TrimSpace(string(line)))
	require.Len(t, left(t, tmp), 1)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	require.Eventually(t, func() bool { return len(left(t, tmp)) == 0 }, 20*time.Second, 5*time.Millisecond)
}
