//go:build !linux

package executors

// ReadProcessors knows nothing here.
func ReadProcessors() (ProcessorReading, error) { return ProcessorReading{}, ErrUseUnknown }
