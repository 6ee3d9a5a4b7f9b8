package osutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

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
