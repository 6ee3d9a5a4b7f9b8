//go:build !noserver

package apart_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/sdk/local/apart"
	"github.com/harpagon/harpagon/sdk/local/embedded"
)

// deaf makes a child that was started as a server ignore that role.
const deaf = "APART_TEST_DEAF"

func TestMain(m *testing.M) {
	if os.Getenv(deaf) != "" && subprocess.Requested() != "" {
		fmt.Println("panic: hello")
		os.Exit(3)
	}
	apart.Serve()
	os.Exit(m.Run())
}

func start(t *testing.T) (*apart.Server, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := apart.Start(t.Context(), embedded.Options{DBFile: filepath.Join(dir, "temporal.db"), LogFile: filepath.Join(dir, "temporal.log"), WithoutUI: true})
	require.NoError(t, err)
	return s, filepath.Join(dir, "temporal.log")
}

func TestWhatWasKilledKnowsWhatItKnew(t *testing.T) {
	s, log := start(t)
	c, err := client.Dial(client.Options{HostPort: s.Address()})
	require.NoError(t, err)
	defer c.Close()
	first, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "one", TaskQueue: "q"}, "anything")
	require.NoError(t, err)

	pid := s.PID()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return s.PID() != pid }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		found, err := c.DescribeWorkflowExecution(t.Context(), "one", "")
		return err == nil && found.WorkflowExecutionInfo.Execution.RunId == first.GetRunID()
	}, time.Minute, 10*time.Millisecond)

	last := s.PID()
	require.NoError(t, s.Stop())
	require.ErrorIs(t, syscall.Kill(last, 0), syscall.ESRCH, "no child is left")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(text), "ended by itself: signal: killed")
}

// Signals to all processes of a service reach the child, too; only its parent ends it.
func TestSignalsAreForTheParent(t *testing.T) {
	s, _ := start(t)
	pid := s.PID()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(pid, sig))
	}
	c, err := client.Dial(client.Options{HostPort: s.Address()})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, pid, s.PID())
	require.NoError(t, s.Stop())
}

// Stop while a server that was killed is being started again leaves nothing behind.
func TestStopWhileItStartsAgain(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond} {
		s, _ := start(t)
		require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
		time.Sleep(after)
		_ = s.Stop() // the error may be that it was killed
		require.ErrorIs(t, syscall.Kill(s.PID(), 0), syscall.ESRCH)
	}
}

func TestWhyItDoesNotStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := embedded.Options{DBFile: filepath.Join(t.TempDir(), "t.db"), UIAddr: l.Addr().String()}
	_, err = apart.Start(t.Context(), o)
	require.ErrorContains(t, err, "Temporal UI")
	require.ErrorContains(t, err, "in use")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = apart.Start(over, o)
	require.ErrorIs(t, err, context.Canceled)

	t.Setenv(deaf, "1")
	_, err = apart.Start(t.Context(), o)
	require.ErrorContains(t, err, "did not become a Temporal server (exit status 3, panic: hello)")
}
