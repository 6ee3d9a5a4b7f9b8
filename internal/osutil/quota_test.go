package osutil

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none":             {nil, 0},
		"no limit":         {map[string]string{"cpu.max": "max 100000\n"}, 0},
		"half":             {map[string]string{"cpu.max": "50000 100000\n"}, 0.5},
		"one":              {map[string]string{"cpu.max": "100000 100000\n"}, 1},
		"another period":   {map[string]string{"cpu.max": "400000 200000"}, 2},
		"version 1":        {map[string]string{"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1.5},
		"1, both":          {map[string]string{"cpu,cpuacct/cpu.cfs_quota_us": "150000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 1.5},
		"1 and no limit":   {map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0},
		"nonsense":         {map[string]string{"cpu.max": "a b\n"}, 0},
		"no number":        {map[string]string{"cpu.max": "NaN 100000\n"}, 0},
		"no period":        {map[string]string{"cpu.max": "100000 0\n"}, 0},
		"infinite":         {map[string]string{"cpu.max": "1e999 100000\n"}, 0},
		"empty":            {map[string]string{"cpu.max": ""}, 0},
		"of its own":       {map[string]string{"/proc/self/cgroup": "0::/a/b\n", "a/b/cpu.max": "300000 100000", "cpu.max": "max 100000"}, 3},
		"of one above":     {map[string]string{"/proc/self/cgroup": "0::/a/b\n", "a/b/cpu.max": "300000 100000", "a/cpu.max": "200000 100000"}, 2},
		"of version 1":     {map[string]string{"/proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/a\n0::/\n", "cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "100000"}, 2.5},
		"of another's":     {map[string]string{"/proc/self/cgroup": "2:cpuset:/a\n0::/\n", "cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "100000"}, 0},
		"a broken list":    {map[string]string{"/proc/self/cgroup": "cpu\n:::\n0::../..\n", "cpu.max": "100000 100000"}, 1},
		"a path from root": {map[string]string{"/proc/self/cgroup": "0::/../../pod\n", "cpu.max": "100000 100000", "pod/cpu.max": "50000 100000"}, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for at, text := range c.files {
				if at[0] == '/' {
					at = at[1:]
				} else {
					at = "sys/fs/cgroup/" + at
				}
				root[at] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, Quota(root))
		})
	}
}

func TestCoresAreWholeOnes(t *testing.T) {
	for _, c := range []struct {
		most  int
		quota float64
		want  int
	}{{8, 0, 8}, {8, 8, 8}, {8, 20, 8}, {2, 1, 1}, {2, 0.5, 1}, {2, 1.5, 1}, {4, 2.5, 2}, {3, 2.999, 2}, {1, 0.1, 1}} {
		require.Equal(t, c.want, cores(c.most, c.quota), "%d, a quota of %v", c.most, c.quota)
	}
}
