//go:build !linux

package emulated

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/executors"
)

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error { return executors.Sleep(ctx, d) }
