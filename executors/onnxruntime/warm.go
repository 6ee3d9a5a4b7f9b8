package onnxruntime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// warmUp runs every batch size on zeros; a model whose sizes nobody knows is not warmed up. tuned
// says that the provider chooses kernels for each size.
func (in *instance) warmUp(ctx context.Context, sizes []int, feeds map[string]pipelines.Port, tuned bool) error {
	item, ok := executors.WarmItem(in.signature.Inputs, feeds)
	if !ok {
		return nil
	}
	run := func(ctx context.Context, n int) error {
		_, err := in.Run(ctx, slices.Repeat([][]wire.Tensor{item}, n))
		return err
	}
	if err := executors.WarmUp(ctx, sizes, run); err != nil {
		return err
	}
	if tuned {
		executors.WarmBetween(ctx, sizes, run)
	}
	return ctx.Err()
}

// resident is the memory of this process that is in use, in bytes; 0 where the
// system does not say.
func resident() int64 { return residentOf(os.Getpid()) }

func residentOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
