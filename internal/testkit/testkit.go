// Package testkit is for tests only: parsers that stall, clocks that were set, and disks that
// are full.
//
// A fuzz target that calls WatchStalls fails with the input that takes far more processor time
// than its size accounts for, or never ends.
//
//	f.Fuzz(func(t *testing.T, text []byte) {
//		defer testkit.WatchStalls(t, len(text))()
//
// Processor time is what counts, since other work on the machine must fail no test.
//
// SetClock reads a clock that was set. The time of day jumps then, and the time
// that has passed does not: a time.Time has both, and methods such as Sub and Before go by
// the second where both times have it.
//
//	due := testkit.SetClock(time.Now(), -time.Hour) // as read after the clock was set back
//
// In a bubble of testing/synctest times have the time of day alone. SetClock gives them the
// other, so that they compare with each other as outside, but with time.Now they do not.
//
// NewDisk and MountDisk are disks that are small, full or may only be read. They are in
// memory, and only root may have them.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/harpagon/harpagon/internal/osutil"
)

// What an input may take: a hundred times and more of what the slowest parser, that of
// declarations, does with the instruments of fuzzing.
const (
	perInput = time.Second
	perByte  = 10 * time.Microsecond
)

// WatchStalls begins to watch over the processor time of this process; done ends it, and fails t
// where an input of so many bytes has taken too much. A call that does not end at all is
// ended by a panic, by which the fuzzing engine reports the input.
func WatchStalls(t testing.TB, size int) (done func()) {
	return watch(t, perInput+time.Duration(size)*perByte, func(said string) { panic(said) })
}

// watch calls stalled, too, which may be on another goroutine.
func watch(t testing.TB, limit time.Duration, stalled func(string)) (done func()) {
	begin, over := osutil.ProcessorTime(), make(chan struct{})
	spent := func() string {
		if d := osutil.ProcessorTime() - begin; d > limit {
			return fmt.Sprintf("the input has taken %v of processor time, and may take %v", d, limit)
		}
		return ""
	}
	watcher := time.AfterFunc(limit/time.Duration(runtime.GOMAXPROCS(0)), func() {
		for {
			if said := spent(); said != "" {
				stalled(said)
				return
			}
			select {
			case <-over:
				return
			case <-time.After(limit / 4):
			}
		}
	})
	return func() {
		watcher.Stop()
		close(over)
		if said := spent(); said != "" {
			t.Error(said)
		}
	}
}

// parts are those of a time.Time. Where it has both times, wall has a bit for that, 33 bits
// of seconds since 1885 and 30 of nanoseconds, and passed those since some time; otherwise
// wall has nanoseconds only, and passed seconds since the year 1.
type parts struct {
	wall   uint64
	passed int64
	_      *time.Location
}

const (
	both  = 1 << 63
	shift = 30
	to85  = (1884*365 + 1884/4 - 1884/100 + 1884/400) * 86400 // seconds
)

// SetClock is t as it would have been read had the clock been set before by that much, in whole
// seconds.
func SetClock(t time.Time, by time.Duration) time.Time {
	p := (*parts)(unsafe.Pointer(&t))
	if p.wall&both == 0 {
		since := t.UnixNano()
		p.wall, p.passed = both|uint64(p.passed-to85)<<shift|p.wall, since
	}
	p.wall += uint64(by/time.Second) << shift
	return t
}

// Disk is a small file system in memory, so that it can be full without harm to others.
type Disk struct{ Folder string }

// NewDisk is a disk of 1 MiB and 64 files, until the test ends. The test is skipped where it may not have one.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	d, err := MountDisk(filepath.Join(t.TempDir(), "disk"), "size=1m,nr_inodes=64,mode=0700")
	if err != nil {
		t.Skip("without a disk of its own: ", err)
	}
	t.Cleanup(d.Unmount)
	return d
}

// MountDisk makes one, with options of tmpfs.
func MountDisk(folder, options string) (*Disk, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "disktest", folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount %s: %w: %s", folder, err, out)
	}
	return &Disk{folder}, nil
}

// Unmount forgets it.
func (d *Disk) Unmount() { _ = exec.Command("umount", "-l", d.Folder).Run() }

func (d *Disk) ballast() string { return filepath.Join(d.Folder, "ballast") }

// Fill writes until nothing more can be.
func (d *Disk) Fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; { // the last bytes, too
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 4
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Crowd makes files until there can be no other file or folder. Written to they still can be.
func (d *Disk) Crowd() error {
	if err := os.Mkdir(d.ballast(), 0o700); err != nil {
		return err
	}
	for n := 0; ; n++ {
		err := os.WriteFile(filepath.Join(d.ballast(), fmt.Sprint(n)), nil, 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Free ends what Fill or Crowd did.
func (d *Disk) Free() error { return os.RemoveAll(d.ballast()) }

// May reports whether the disk may be written.
func (d *Disk) May(written bool) error {
	option := "remount,ro"
	if written {
		option = "remount,rw"
	}
	if out, err := exec.Command("mount", "-o", option, d.Folder).CombinedOutput(); err != nil {
		return fmt.Errorf("mount -o %s: %w: %s", option, err, out)
	}
	return nil
}

// DiskFault is one way in which a disk refuses what is written.
type DiskFault struct {
	Name       string
	Begin, End func(*Disk) error
}

// DiskFaults are all of them.
func DiskFaults() []DiskFault {
	return []DiskFault{
		{"full", (*Disk).Fill, (*Disk).Free},
		{"no room for another file", (*Disk).Crowd, (*Disk).Free},
		{"read only", func(d *Disk) error { return d.May(false) }, func(d *Disk) error { return d.May(true) }},
	}
}

// Long skips a test that takes half a minute and more, but for HARPAGON_LONG.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("takes longer than others; HARPAGON_LONG=1 runs it")
	}
}
