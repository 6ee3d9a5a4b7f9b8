package devices

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
)

// MPS is NVIDIA's Multi-Process Service, with which kernels of several processes run on a GPU at once; without it the
// processes take turns. See https://docs.nvidia.com/deploy/mps/.
type MPS struct {
	daemon *subprocess.Process // nil where another one is used
	folder string              // of its pipes, which it makes and removes
	path   string
}

// MPSOptions configure how the service is started.
type MPSOptions struct {
	Supervisor []string  // see subprocess.Command.Args
	Output     io.Writer // of the daemon; nil means os.Stderr
}

const (
	mpsControl = "nvidia-cuda-mps-control"
	mpsPipes   = "CUDA_MPS_PIPE_DIRECTORY"

	mpsStart = 20 * time.Second // until the daemon answers
	mpsAsk   = 5 * time.Second  // for one answer
	mpsEnd   = 2 * time.Second  // for its servers to end
)

// StartMPS starts the service's daemon, unless one is running where processes of this environment look for it. It has a
// folder of its own and is kept in the foreground, so that it ends with this process, even one that is killed.
func StartMPS(ctx context.Context, o MPSOptions) (*MPS, error) {
	path, err := exec.LookPath(mpsControl)
	if err != nil {
		return nil, fmt.Errorf("executors/devices: --mps: %w; it comes with NVIDIA's driver: install it, or leave --mps out", err)
	}
	m := &MPS{path: path}
	if m.ask(ctx, "get_server_list") == nil {
		return m, nil
	}
	m.folder = filepath.Join(os.TempDir(), "harpagon-mps-"+rand.Text()[:8])
	m.daemon, err = subprocess.Start(subprocess.Command{
		Args: o.Supervisor, Run: []string{path, "-f"}, Env: append(m.Env(), "CUDA_MPS_LOG_DIRECTORY="+m.folder),
		Folder: m.folder, Output: o.Output, Prefix: "[mps] ", Grace: mpsEnd,
	})
	if err != nil {
		return nil, fmt.Errorf("executors/devices: starting %s: %w", mpsControl, err)
	}
	if err := m.daemon.Greet(ctx, mpsStart, m.awaitAnswer); err != nil {
		m.Stop()
		return nil, fmt.Errorf("executors/devices: %s -f does not serve: %w", mpsControl, err)
	}
	return m, nil
}

func (m *MPS) awaitAnswer(ctx context.Context) error {
	for began := time.Now(); ; {
		err := m.ask(ctx, "get_server_list")
		if err == nil || osutil.SleepAgain(ctx, began, 20*time.Millisecond, time.Second) != nil {
			return err
		}
	}
}

// ask sends the daemon a command. Where none is running, the control program fails.
func (m *MPS) ask(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, mpsAsk)
	defer cancel()
	c := exec.CommandContext(ctx, m.path)
	c.Stdin, c.Env = strings.NewReader(command+"\n"), append(os.Environ(), m.Env()...)
	c.WaitDelay = time.Second
	said, err := c.CombinedOutput()
	if last := bytes.TrimSpace(said); err != nil && len(last) > 0 {
		err = errors.New(string(last))
	}
	return err
}

// Env is what a process that is to use the service has in its environment beside this one's.
func (m *MPS) Env() []string {
	if m.folder == "" {
		return nil
	}
	return []string{mpsPipes + "=" + m.folder}
}

// Describe states whose service it is.
func (m *MPS) Describe() string {
	if m.daemon == nil {
		return "MPS: using the daemon that is running"
	}
	return "MPS: started " + m.path
}

// Stop ends a daemon that was started; one that was there goes on.
func (m *MPS) Stop() {
	if m.daemon == nil {
		return
	}
	if m.daemon.Alive() {
		_ = m.ask(context.Background(), "quit")
		m.daemon.EndsWithin(mpsEnd)
	}
	m.daemon.Stop()
}
