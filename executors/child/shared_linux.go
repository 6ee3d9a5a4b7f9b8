package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// newShared makes memory with parts of so many bytes, and a file for the child to
// map it from. The size is sealed: a child that shortened it would end its parent.
// Where the system has no such memory, tensors travel through the pipes.
func newShared(part int) (*shared, *os.File, error) {
	size := 2 * maxHeld * roundUp(part, os.Getpagesize())
	fd, err := unix.MemfdCreate("harpagon-engine", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		var s *shared
		if s, err = openShared(fd, size); err == nil {
			return s, file, nil
		}
	}
	_ = file.Close()
	return nil, nil, err
}

// openShared maps memory that newShared has made.
func openShared(fd, size int) (*shared, error) {
	all, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &shared{all: all}, nil
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// close unmaps the memory once nobody looks at it; it may be called more than
// once, and on nothing.
func (s *shared) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all != nil {
		_ = unix.Munmap(s.all)
		s.all = nil
	}
}
