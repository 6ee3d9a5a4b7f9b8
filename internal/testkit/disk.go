package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

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

// May says whether the disk may be written.
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
