package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/harpagon/harpagon/internal/testkit"
)

// disk is a small file system in memory, so that it can be full without harm to others.
type disk struct{ *testkit.Disk }

// mount makes one of some MiB, which whoever has the number owns.
func mount(folder string, mib, owner int) (disk, error) {
	d, err := testkit.MountDisk(folder, fmt.Sprintf("size=%dm,mode=0700,uid=%d", mib, owner))
	return disk{d}, err
}

// damage writes over pieces of every file.
func (d disk) damage(r *rand.Rand) error {
	return filepath.WalkDir(d.Folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		noise := make([]byte, 4096)
		for at := int64(0); at < info.Size(); at += 1 + r.Int64N(256<<10) {
			for i := range noise {
				noise[i] = byte(r.Uint32())
			}
			if _, err := f.WriteAt(noise[:min(int64(len(noise)), info.Size()-at)], at); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyTo keeps what is on the disk, with owners.
func (d disk) copyTo(folder string) error { return same(d.Folder, folder) }

// copyFrom makes the disk what it was.
func (d disk) copyFrom(folder string) error {
	all, err := os.ReadDir(d.Folder)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(d.Folder, e.Name())); err != nil {
			return err
		}
	}
	return same(folder, d.Folder)
}

func same(from, to string) error {
	out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}
