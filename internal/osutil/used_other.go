//go:build !unix

package osutil

import "time"

// ProcessorTime cannot be told here.
func ProcessorTime() time.Duration { return 0 }
