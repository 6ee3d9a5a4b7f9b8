package osutil

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// MemoryFile makes memory for another process to map. The size is sealed: a process that shortened it would
// end all that look at it.
func MemoryFile(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("harpagon", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	if err = file.Truncate(int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// NamedMemory makes memory that other processes can open by its name until remove is called. All of it
// is there: where the folder is full, this fails, and not who writes to it. The file is locked while it is open, by
// which those are distinguished, and removed, whose owner was killed before it could do so.
func NamedMemory(name string, size int) (file *os.File, remove func(), err error) {
	return namedMemory(SharedMemory, name, size)
}

func namedMemory(folder, name string, size int) (file *os.File, remove func(), err error) {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, nil, &os.PathError{Op: "creating shared memory in", Path: folder, Err: err}
	}
	file = os.NewFile(uintptr(fd), folder+"/"+name)
	if err = unix.Fallocate(fd, 0, 0, int64(size)); err == nil {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		removeOrphans(folder)
		err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, file.Name(), unix.AT_SYMLINK_FOLLOW)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, &os.PathError{Op: "creating shared memory", Path: file.Name(), Err: err}
	}
	return file, func() { _ = os.Remove(file.Name()) }, nil
}

// removeOrphans removes memory of ours that no process has locked.
func removeOrphans(folder string) {
	all, _ := filepath.Glob(filepath.Join(folder, NamePrefix+"*"))
	for _, path := range all {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(path)
		}
		_ = file.Close()
	}
}
