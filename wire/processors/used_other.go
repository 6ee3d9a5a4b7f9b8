//go:build !unix

package processors

import "time"

// used is not known here.
func used() (time.Duration, bool) { return 0, false }
