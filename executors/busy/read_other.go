//go:build !linux

package busy

// Read knows nothing here.
func Read() (Reading, error) { return Reading{}, ErrUnknown }
