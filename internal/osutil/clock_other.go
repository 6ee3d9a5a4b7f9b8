//go:build !linux

package osutil

// ClockKept is unknown here.
func ClockKept() (kept, known bool) { return false, false }
