package roles

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// TestRecordingOnSignal: SIGUSR1 has the recording written while the gateway
// serves on, and it is written again when the gateway ends.
func TestRecordingOnSignal(t *testing.T) {
	held := make(chan os.Signal, 1) // until the recorder listens, the signal would end the process
	signal.Notify(held, syscall.SIGUSR1)
	defer signal.Stop(held)

	path := filepath.Join(t.TempDir(), "run.harprec")
	told := make(chan string, 100)
	g := gateway.New(gateway.Options{})
	defer func() { require.NoError(t, g.Close()) }()
	life, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { newRecorder(path, func(s string) { told <- s }, g.Recording).keep(life) })

	for again := true; again; {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		select {
		case text := <-told:
			assert.Equal(t, "wrote "+path, text)
			again = false
		case <-time.After(20 * time.Millisecond): // it did not listen yet
		}
	}
	whole := func() {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = recording.Parse(text)
		require.NoError(t, err)
		assert.NoFileExists(t, path+".part")
	}
	whole()
	require.NoError(t, os.Remove(path))
	end()
	running.Wait()
	whole()
}
