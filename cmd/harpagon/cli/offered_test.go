package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/devices"
)

func TestAWorkerOffersEmulatedDevices(t *testing.T) {
	all, err := offered(devices.Config{Host: "h"}, false, map[string]int{"v100": 2, "cpu": 1})
	require.NoError(t, err)
	var names []string
	for _, d := range all {
		names = append(names, d.Host+"/"+d.Name)
	}
	assert.Equal(t, []string{"h/cpu/0", "h/v100/0", "h/v100/1"}, names)
	_, err = offered(devices.Config{Host: "h"}, false, map[string]int{"v100": 0})
	assert.ErrorContains(t, err, "--emulate v100=0")
	_, err = offered(devices.Config{Host: "h", Cores: 2}, false, map[string]int{"v100": 1})
	assert.ErrorContains(t, err, "leave out --cores")
	all, err = offered(devices.Config{Host: "h", Cores: 3}, false, nil)
	require.NoError(t, err)
	assert.Len(t, all, 3)
}
