package cli

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk/local/system"
)

func noTemporal(context.Context, system.TemporalOptions) (system.Temporal, error) {
	return nil, errors.New("a server was started")
}

// Every command that listens reports at once a port in use and the flag that sets it. None
// of them needs its Temporal server for that, which is not there.
func TestABusyPortIsNamedWithItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	busy := l.Addr().String()
	_, port, err := net.SplitHostPort(busy)
	require.NoError(t, err)
	free := []string{"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}
	state := func() []string { return []string{"--state", filepath.Join(t.TempDir(), "state")} }
	up := append(free, "--ui", "127.0.0.1:0", "--store-listen", "127.0.0.1:0")
	for _, c := range []struct {
		command, flag string
		args          []string
	}{
		{"up", "--http", append(state(), up...)}, {"up", "--grpc", append(state(), up...)}, {"up", "--ui", append(state(), up...)}, {"up", "--store-listen", append(state(), up...)},
		{"gateway", "--http", append(free, "--attach", "127.0.0.1:0")}, {"gateway", "--grpc", append(free, "--attach", "127.0.0.1:0")}, {"gateway", "--attach", free},
		{"dispatcher", "--listen", nil}, {"worker", "--metrics", nil}, {"control", "--store-listen", nil},
		{"temporal", "--addr", append(state(), "--ui", "")}, {"temporal", "--ui", append(state(), "--addr", "127.0.0.1:0")},
	} {
		d := Deps{Environ: []string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, Start: system.Start, Temporal: noTemporal}
		if c.command == "up" {
			d.Environ = nil
		}
		got := runWith(t, d, append(append([]string{c.command}, c.args...), c.flag, busy)...)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, "port "+port+" on 127.0.0.1 is in use by another program", "%s %s", c.command, c.flag)
		assert.Contains(t, got.stderr, "choose another with "+c.flag+" ", "%s %s", c.command, c.flag)
	}
}

// TestAllBusyPortsAreNamedAtOnce: one start of a command reports them all.
func TestAllBusyPortsAreNamedAtOnce(t *testing.T) {
	for command, flags := range map[string][]string{"up": {"--http", "--grpc", "--ui"}, "gateway": {"--http", "--attach"}} {
		args := []string{command, "--grpc", "127.0.0.1:0"}
		if command == "up" {
			args = append(args, "--state", filepath.Join(t.TempDir(), "state"))
		}
		for _, flag := range flags {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			args = append(args, flag, l.Addr().String())
		}
		d := Deps{Start: system.Start, Temporal: noTemporal}
		if command != "up" {
			d.Environ = []string{"TEMPORAL_ADDRESS=127.0.0.1:1"}
		}
		got := runWith(t, d, args...)
		assert.Equal(t, ExitError, got.code)
		for _, flag := range flags {
			assert.Contains(t, got.stderr, "choose another with "+flag+" ", command)
		}
	}
}
