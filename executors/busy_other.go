//go:build !linux

package executors

// ReadProcessors returns ErrUseUnknown on this platform.
func ReadProcessors() (ProcessorReading, error) { return ProcessorReading{}, ErrUseUnknown }
