package osutil

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Quota is how many processors a container may use at a time, on average over a period of
// the kernel's (100 ms as a rule), from the files of cgroups below root: the least of those
// of this process and of all above it, in version 2 (cpu.max) or 1 (cpu.cfs_quota_us). 0 is
// without a limit, and where the files cannot be read.
func Quota(root fs.FS) float64 {
	least := 0.0
	for _, folder := range groups(root) {
		if q := quotaOf(root, folder); q > 0 && (least == 0 || q < least) {
			least = q
		}
	}
	return least
}

// groups are the folders of this process's cgroups for processors, and of those above them.
// Within a container they are often mounted as if they were at the top.
func groups(root fs.FS) (all []string) {
	const mount = "sys/fs/cgroup"
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		below := []string{mount}
		if fields[1] != "" { // version 1 has a folder for each controller
			if !strings.Contains(","+fields[1]+",", ",cpu,") {
				continue
			}
			below = []string{mount + "/cpu", mount + "/cpu,cpuacct"}
		}
		for _, b := range below {
			for p := path.Clean("/" + fields[2]); p != "/"; p = path.Dir(p) {
				all = append(all, b+p)
			}
		}
	}
	return append(all, mount, mount+"/cpu", mount+"/cpu,cpuacct")
}

// quotaOf is that of one group; 0 without.
func quotaOf(root fs.FS, folder string) float64 {
	text, err := fs.ReadFile(root, folder+"/cpu.max")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		most, err := fs.ReadFile(root, folder+"/cpu.cfs_quota_us")
		period, err2 := fs.ReadFile(root, folder+"/cpu.cfs_period_us")
		if errors.Join(err, err2) != nil {
			return 0
		}
		fields = []string{strings.TrimSpace(string(most)), strings.TrimSpace(string(period))}
	}
	most, err1 := strconv.ParseFloat(fields[0], 64)
	period, err2 := strconv.ParseFloat(fields[1], 64)
	if err1 != nil || err2 != nil || !(most > 0) || !(period > 0) || math.IsInf(most, 0) || math.IsInf(period, 0) {
		return 0 // "max", or -1 in version 1
	}
	return most / period
}
