package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsCollectedAsTheEnvironmentSays(t *testing.T) {
	const total = 8 << 30
	for _, c := range []struct {
		name    string
		env     map[string]string
		total   int64
		percent int
		most    int64
	}{
		{"nothing set", nil, total, 300, total / 2},
		{"GOGC", map[string]string{"GOGC": "50"}, total, 0, total / 2},
		{"GOMEMLIMIT", map[string]string{"GOMEMLIMIT": "1GiB"}, total, 300, 0},
		{"both", map[string]string{"GOGC": "off", "GOMEMLIMIT": "1GiB"}, total, 0, 0},
		{"memory unknown", nil, 0, 0, 0},
	} {
		percent, most := garbage(func(name string) string { return c.env[name] }, c.total)
		require.Equal(t, c.percent, percent, c.name)
		require.Equal(t, c.most, most, c.name)
	}
}
