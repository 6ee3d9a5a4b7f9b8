package executors

import (
	"context"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

const (
	plainSizes = 2                    // that took no longer at first say that no size does
	longer     = 2                    // times as long as the second run takes the first where it prepares
	slack      = 5 * time.Millisecond // and beyond that
	between    = 30 * time.Second     // for the sizes that nobody names, all together
)

// WarmItem is a request of zeros, or of empty texts. What a pipeline sends fills open dimensions; ok is
// false where the size of an input is not known.
func WarmItem(inputs []pipelines.Port, feeds map[string]pipelines.Port) (item []wire.Tensor, ok bool) {
	item = make([]wire.Tensor, len(inputs))
	for i, port := range inputs {
		t := wire.Tensor{Datatype: port.Datatype, Shape: slices.Clone(port.Shape)}
		if feed := feeds[port.Name].Shape; len(feed) == len(t.Shape) {
			for k := range t.Shape {
				if t.Shape[k] < 0 {
					t.Shape[k] = feed[k]
				}
			}
		}
		if t.Datatype == "" || slices.ContainsFunc(t.Shape, func(d int64) bool { return d < 1 }) {
			return nil, false
		}
		size := wire.Size(t.Datatype)
		if t.Datatype == wire.Bytes {
			size = 4 // the length of an empty text
		}
		t.Data = make([]byte, t.Len()*size)
		item[i] = t
	}
	return item, true
}

// WarmUp runs a batch of every one of the sizes, the largest first, which brings all the memory that
// the others need.
func WarmUp(ctx context.Context, sizes []int, run func(ctx context.Context, size int) error) error {
	sizes = slices.Sorted(slices.Values(sizes))
	for _, n := range slices.Backward(sizes) {
		if err := run(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// WarmBetween runs the sizes below the largest that are not among them: all where the first
// run of one takes longer than the second, and two where it does not. That a size fails is for whoever
// sends it to say.
func WarmBetween(ctx context.Context, sizes []int, run func(ctx context.Context, size int) error) {
	begin, prepares, plain := time.Now(), false, 0
	took := func(n int) time.Duration {
		from := time.Now()
		if run(ctx, n) != nil {
			return -1
		}
		return time.Since(from)
	}
	for n := slices.Max(append([]int{0}, sizes...)) - 1; n > 0 && plain < plainSizes && time.Since(begin) < between; n-- {
		if slices.Contains(sizes, n) {
			continue
		}
		first := took(n)
		if first < 0 {
			return
		}
		if prepares {
			continue
		}
		second := took(n)
		if prepares = second >= 0 && first > longer*second+slack; !prepares {
			plain++
		}
	}
}
