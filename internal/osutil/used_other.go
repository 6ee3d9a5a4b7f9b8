//go:build !unix

package osutil

import "time"

// ProcessorTime is unknown here.
func ProcessorTime() time.Duration { return 0 }
