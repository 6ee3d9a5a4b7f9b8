package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// disk is a small file system in memory, so that it can be full without harm to others.
type disk struct{ folder string }

// mount makes one of some MiB, which whoever has the number owns.
func mount(folder string, mib, owner int) (*disk, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	option := fmt.Sprintf("size=%dm,mode=0700,uid=%d", mib, owner)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", option, "gameday", folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount %s: %w: %s", folder, err, out)
	}
	return &disk{folder}, nil
}

func (d *disk) unmount() { _ = exec.Command("umount", "-l", d.folder).Run() }

func (d *disk) ballast() string { return filepath.Join(d.folder, "ballast") }

// fill writes until nothing more can be.
func (d *disk) fill() error {
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

func (d *disk) free() error { return os.Remove(d.ballast()) }

// may says whether the disk may be written.
func (d *disk) may(written bool) error {
	option := "remount,ro"
	if written {
		option = "remount,rw"
	}
	if out, err := exec.Command("mount", "-o", option, d.folder).CombinedOutput(); err != nil {
		return fmt.Errorf("mount -o %s: %w: %s", option, err, out)
	}
	return nil
}

// damage writes over pieces of every file.
func (d *disk) damage(r *rand.Rand) error {
	return filepath.WalkDir(d.folder, func(path string, e fs.DirEntry, err error) error {
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
func (d *disk) copyTo(folder string) error { return same(d.folder, folder) }

// copyFrom makes the disk what it was.
func (d *disk) copyFrom(folder string) error {
	all, err := os.ReadDir(d.folder)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(d.folder, e.Name())); err != nil {
			return err
		}
	}
	return same(folder, d.folder)
}

func same(from, to string) error {
	out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}
