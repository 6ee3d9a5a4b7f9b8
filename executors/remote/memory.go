package remote

import (
	"context"
	"slices"

	"github.com/harpagon/harpagon/executors"
)

// graded is what a model took on its device after batches of up to a size.
type graded struct {
	size  int
	bytes int64
}

// grade warms the sizes up. From a server that reports its memory it is read after each, the
// smallest first.
func (in *Instance) grade(ctx context.Context, sizes []int, run func(ctx context.Context, size int) error) error {
	if in.memoryNow(ctx) == 0 {
		return executors.WarmUp(ctx, sizes, run)
	}
	for _, n := range slices.Sorted(slices.Values(sizes)) {
		if err := run(ctx, n); err != nil {
			return err
		}
		in.graded = append(in.graded, graded{n, in.memoryNow(ctx)})
	}
	return nil
}

// memoryNow is what the server reports now; 0 where it does not.
func (in *Instance) memoryNow(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	meta, err := in.target.Server.Metadata(ctx, in.target.Model, in.target.Version)
	if err != nil {
		return 0
	}
	return meta.Memory
}

// Memory is what the server reported after the largest batch; 0 where it does not.
func (in *Instance) Memory() int64 { return in.MemoryFor(in.largest) }

// MemoryFor is what an instance for batches of up to a size takes.
func (in *Instance) MemoryFor(size int) (bytes int64) {
	for _, g := range in.graded {
		if g.size <= size {
			bytes = max(bytes, g.bytes)
		}
	}
	return bytes
}
