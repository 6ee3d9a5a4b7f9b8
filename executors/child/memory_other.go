//go:build unix && !linux

package child

import "os"

// newFile makes memory for a child to map: a file without a name.
func newFile(size int) (*os.File, error) {
	file, err := os.CreateTemp("", "harpagon-engine")
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
