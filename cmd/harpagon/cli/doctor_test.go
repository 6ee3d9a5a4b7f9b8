package cli

import (
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is a machine with these files.
func machine(files map[string]string) doctor {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return doctor{root: root}
}

func TestDoctorReadsQuotas(t *testing.T) {
	f := machine(map[string]string{"sys/fs/cgroup/cpu.max": "50000 100000"}).cores()
	assert.False(t, f.OK)
	assert.Contains(t, f.Found, "a quota of 0.5")
	assert.Contains(t, f.Advice, "less than one core")
	f = machine(map[string]string{"sys/fs/cgroup/cpu.stat": "nr_periods 9\nnr_throttled 7\n"}).cores()
	assert.Contains(t, f.Advice, "stopped this container 7 times")
}

func TestDoctorReadsLoadAndMemory(t *testing.T) {
	x := machine(map[string]string{"proc/loadavg": "9999.5 1 1 1/1 1\n", "proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   524288 kB\n"})
	assert.Contains(t, x.load().Advice, "Other programs use the cores")
	assert.Contains(t, x.memory().Found, "512 MiB free")
	assert.False(t, x.memory().OK)
	x = machine(map[string]string{"proc/loadavg": "0.00 0 0 1/1 1\n", "proc/meminfo": "MemAvailable: 8388608 kB\n", "sys/fs/cgroup/memory.max": "268435456\n"})
	assert.True(t, x.load().OK)
	assert.Contains(t, x.memory().Found, "at most 256 MiB for this container")
	assert.False(t, x.memory().OK)
	assert.Empty(t, machine(nil).load(), "what is unknown is left out")
	assert.True(t, machine(nil).driver().OK)
	var printed strings.Builder
	require.NoError(t, describeSymptoms(&printed, []symptom{machine(nil).driver()}))
	assert.Regexp(t, `driver +none +no driver of NVIDIA\n`, printed.String())
}

func TestDoctor(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	at := taken.Addr().String()
	got := run(t, "doctor", "--ports", at, "--state", t.TempDir())
	assert.Zero(t, got.code)
	assert.Contains(t, got.stdout, at+" is taken")
	assert.Contains(t, strings.Join(strings.Fields(got.stdout), " "), "port 0 takes one that is free")
	assert.Contains(t, run(t, "doctor", "--ports", "127.0.0.1:0", "--json").stdout, `"check": "disk"`)
}
