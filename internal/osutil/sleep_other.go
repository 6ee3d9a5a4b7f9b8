//go:build !linux

package osutil

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, which is its error.
func Sleep(ctx context.Context, d time.Duration) error { return SleepTimer(ctx, d) }
