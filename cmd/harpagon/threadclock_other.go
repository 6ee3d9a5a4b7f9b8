//go:build !linux

package main

import "time"

// threadClock is nil where there is no clock of processor time.
func threadClock() func() time.Duration { return nil }
