package devices

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// gpus is a Lister of fixed devices.
type gpus struct {
	list []GPU
	err  error
}

func (g gpus) List() ([]GPU, error) { return g.list, g.err }

func TestLocal(t *testing.T) {
	list := []GPU{{UUID: "GPU-1", Name: "NVIDIA H200", Memory: 141}, {UUID: "GPU-2", Name: "Odd", Memory: 7}}
	got, err := Local(Config{Host: "a", Cores: 2, Memory: 100, GPUs: gpus{list: list}, Hardware: map[string]string{"Odd": "v100"}})
	require.NoError(t, err)
	require.Equal(t, []placement.Device{
		{Host: "a", Name: "cpu/0", Hardware: "cpu", Memory: 50},
		{Host: "a", Name: "cpu/1", Hardware: "cpu", Memory: 50},
		{Host: "a", Name: "gpu/GPU-1", Hardware: "h200", Memory: 141},
		{Host: "a", Name: "gpu/GPU-2", Hardware: "v100", Memory: 7},
	}, got)
	require.True(t, HaveGPU(got))
	require.False(t, HaveGPU(got[:2]))
}

func TestLocalDefaults(t *testing.T) {
	got, err := Local(Config{})
	require.NoError(t, err)
	require.Len(t, got, osutil.Cores())
	require.Zero(t, got[0].Memory)
	got, err = Local(Config{Cores: -1, Memory: 5})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestCoresRemainWhenTheDriverFails(t *testing.T) {
	got, err := Local(Config{Cores: 1, GPUs: gpus{err: errors.New("gone")}})
	require.ErrorContains(t, err, "executors/devices: listing GPUs: gone")
	require.Len(t, got, 1)
}

func TestNVIDIAOnThisMachine(t *testing.T) {
	list, err := NVIDIA().List() // with or without a driver
	require.NoError(t, err)
	for _, g := range list {
		require.NotEmpty(t, g.UUID)
		require.Positive(t, g.Memory)
		t.Log(g, hardwareName(g.Name))
	}
}

func TestHardwareName(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H200":             "h200",
		"Tesla V100-SXM2-16GB":    "v100-sxm2-16gb",
		"NVIDIA GeForce RTX 3090": "rtx-3090",
		"NVIDIA A100-SXM4-40GB":   "a100-sxm4-40gb",
		"Tesla T4":                "t4",
		"NVIDIA Graphics Device":  "gpu",
		"":                        "gpu",
	} {
		require.Equal(t, want, hardwareName(name))
	}
}

func TestEmulated(t *testing.T) {
	got := Emulated("a", []pipelines.Hardware{{Name: "v100", Count: 1, Memory: 16}, {Name: "t4"}}, 2)
	require.Equal(t, []placement.Device{
		{Host: "a", Name: "v100/0", Hardware: "v100", Memory: 16},
		{Host: "a", Name: "t4/0", Hardware: "t4"},
		{Host: "a", Name: "t4/1", Hardware: "t4"},
	}, got)
}

func TestVisible(t *testing.T) {
	require.Equal(t, "GPU-1", Visible(GPU{UUID: "GPU-1"}.Device()))
	require.Empty(t, Visible("cpu/0"))
}

// counting counts its calls.
type counting struct{ asked *int }

func (c counting) List() ([]GPU, error) {
	*c.asked++
	return []GPU{{Temperature: *c.asked}}, nil
}

func TestRecentLimitsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := Recent(counting{&asked}, time.Second)
		for range 4 {
			_, err := l.List()
			require.NoError(t, err)
			time.Sleep(400 * time.Millisecond)
		}
		list, _ := l.List()
		require.Equal(t, 2, asked)
		require.Equal(t, 2, list[0].Temperature)
	})
}
