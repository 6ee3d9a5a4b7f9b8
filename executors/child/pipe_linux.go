package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is what a pipe may hold: the most that Linux grants to everybody. With
// the usual 64 KiB, large tensors cost a change between the processes for every
// sixteen pages.
const pipeSize = 1 << 20

// widen makes a pipe hold more; one that stays small only costs time.
func widen(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}

// keepToItself keeps a file from the programs that this one starts.
func keepToItself(fd int) { unix.CloseOnExec(fd) }
