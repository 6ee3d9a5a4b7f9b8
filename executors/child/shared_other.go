//go:build !linux

package child

import (
	"errors"
	"os"
)

func newShared(int) (*shared, *os.File, error) { return nil, nil, errors.ErrUnsupported }
func openShared(int, int) (*shared, error)     { return nil, errors.ErrUnsupported }
func (s *shared) close()                       {}
