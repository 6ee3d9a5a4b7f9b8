package executors

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc. USER_HZ is 100 on every
// architecture that Go runs on.
const tick = 10 * time.Millisecond

// ReadProcessors looks at the processors now.
func ReadProcessors() (ProcessorReading, error) { return read("/proc", os.Getpid()) }

func read(proc string, pid int) (ProcessorReading, error) {
	r := ProcessorReading{At: time.Now()}
	raw, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return ProcessorReading{}, errors.Join(ErrUseUnknown, err)
	}
	if r.All, r.Cores, err = total(raw); err != nil {
		return ProcessorReading{}, errors.Join(ErrUseUnknown, err)
	}
	r.Own, err = own(proc, pid)
	if err != nil {
		return ProcessorReading{}, errors.Join(ErrUseUnknown, err)
	}
	return r, nil
}

// total reads /proc/stat: the sum over all processors stands on the line cpu,
// as user, nice, system, idle, iowait, irq, softirq, steal; what follows is part
// of user and nice.
func total(raw []byte) (spent time.Duration, cores int, err error) {
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 8 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] == "cpu":
			for i, field := range fields[1:min(len(fields), 9)] {
				if i == 3 || i == 4 { // idle, and idle while a disk works
					continue
				}
				n, err := strconv.ParseInt(field, 10, 64)
				if err != nil {
					return 0, 0, fmt.Errorf("busy: /proc/stat: %w", err)
				}
				spent += time.Duration(n) * tick
			}
		default:
			cores++
		}
	}
	if cores == 0 {
		return 0, 0, errors.New("busy: /proc/stat names no processors")
	}
	return spent, cores, nil
}

// process is one line of /proc/PID/stat: its parent, and its processor time
// with that of the children that it has waited for.
type process struct {
	parent int
	spent  time.Duration
}

// own adds up the times of a process and of all that descend from it.
func own(proc string, pid int) (time.Duration, error) {
	paths, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return 0, err
	}
	all := make(map[int]process, len(paths))
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if p, ok := parse(raw); ok && err == nil {
			all[id] = p
		}
	}
	if _, ok := all[pid]; !ok {
		return 0, fmt.Errorf("busy: %s does not list process %d", proc, pid)
	}
	var spent time.Duration
	for id := range all {
		if descends(all, id, pid) {
			spent += all[id].spent
		}
	}
	return spent, nil
}

func descends(all map[int]process, id, from int) bool {
	for range len(all) { // ids are read one after the other: a circle is possible
		if id == from {
			return true
		}
		p, ok := all[id]
		if !ok {
			return false
		}
		id = p.parent
	}
	return false
}

// parse reads a line of /proc/PID/stat. The name of the program is in
// parentheses and may hold anything.
func parse(raw []byte) (process, bool) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(raw[end+1:])) // from the third field, the state
	if len(fields) < 15 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, false
	}
	p := process{parent: parent}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return process{}, false
		}
		p.spent += time.Duration(n) * tick
	}
	return p, true
}
