//go:build unix && !linux

package osutil

import (
	"errors"
	"os"
)

// MemoryFile makes memory for another process to map: a file without a name.
func MemoryFile(size int) (*os.File, error) {
	file, err := os.CreateTemp("", "harpagon")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name())
	if err = file.Truncate(int64(size)); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// NamedMemory is of Linux.
func NamedMemory(string, int) (file *os.File, remove func(), err error) {
	return nil, nil, errors.New("shared memory with names is made on Linux only")
}
