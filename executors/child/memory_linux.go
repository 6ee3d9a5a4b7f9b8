package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// newFile makes memory for a child to map. The size is sealed: a child that shortened it would
// end its parent.
func newFile(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("harpagon-engine", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
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
