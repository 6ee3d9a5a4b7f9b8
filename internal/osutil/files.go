package osutil

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// MaxText bounds a file of text that is read whole: a profile, a trace, a list of
// prices, a dictionary, values of variables.
const MaxText = 16 << 20

// OpenFile opens a file that a declaration names. What is no regular file, such as a
// folder, a device or a pipe, is an error, and is not waited for.
func OpenFile(path string) (*os.File, fs.FileInfo, error) {
	if _, err := StatFile(path); err != nil { // opening some devices already does something
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = RegularFile(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// StatFile describes a file that a declaration names; what OpenFile refuses is an error.
func StatFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return info, RegularFile(path, info)
}

// RegularFile reports why a file cannot be read: it is no regular one.
func RegularFile(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a folder; name one file", path)
	default:
		return fmt.Errorf("%s is no regular file but %s; copy what it gives into a file and name that", path, kind(mode))
	}
}

// ReadFile is the content of a file that a declaration names, of at most so many bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, info, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > most {
		return nil, tooLarge(path, info.Size(), most)
	}
	return bounded(f, path, most)
}

// ReadGivenFile is the content of a file named at the command line, of at most so many
// bytes: pipes and devices, such as /dev/stdin, are read, too.
func ReadGivenFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, path, most)
}

func bounded(r io.Reader, path string, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(content)) > most {
		err = tooLarge(path, int64(len(content)), most)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

func tooLarge(path string, size, most int64) error {
	return fmt.Errorf("%s has %d bytes or more; it may have %d", path, size, most)
}

// ReplaceFile writes a file with these permissions; one that is there keeps its own and has the new
// content as a whole, on disk when ReplaceFile returns. A link goes on pointing to its file. What is
// no file, such as a pipe or /dev/stdout, is written to. The error names path.
func ReplaceFile(path string, content []byte, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if strings.HasPrefix(path, "/dev/") || err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content, perm)
	}
	to := path
	if err == nil {
		if to, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	err = renameio.WriteFile(to, content, perm, renameio.WithTempDir(filepath.Dir(to)))
	var at *fs.PathError
	if errors.As(err, &at) { // it names a file that is no more
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	return err
}
