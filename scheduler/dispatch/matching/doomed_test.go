package matching

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// However far a decision looks into the queue, after it nothing waits that no instance could serve
// in time any more, and what waits is in the order of arrivals.
func TestNothingWaitsInVain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := twoTypes()
		p := newTestMatching(t, o)
		counts := []int{rapid.IntRange(1, 3).Draw(t, "base"), rapid.IntRange(0, 4).Draw(t, "small")}
		id := dispatch.ExecutorID(0)
		for g, n := range counts {
			for range n {
				p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: int32(g)}, nil)
				id++
			}
		}
		uneven := rapid.Bool().Draw(t, "uneven")
		now := dispatch.Time(0)
		ends := make([]dispatch.Time, id) // 0 for an instance that idles
		for n := range rapid.IntRange(1, 200).Draw(t, "queries") {
			now += dispatch.Time(rapid.Int64Range(0, int64(20*ms)).Draw(t, "gap"))
			for x := soonest(ends); x >= 0 && ends[x] <= now; x = soonest(ends) {
				at := ends[x]
				ends[x] = 0
				follow(p, ends, at, p.Step(at, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(x)}, nil))
			}
			e := query(dispatch.RequestID(n), rapid.Int32Range(1, 1000).Draw(t, "size"), now)
			if uneven && rapid.IntRange(0, 3).Draw(t, "own") == 0 {
				e.Request.Deadline = now + dispatch.Time(rapid.Int64Range(1, int64(200*ms)).Draw(t, "deadline"))
			}
			follow(p, ends, now, p.Step(now, e, nil))
			for settled := false; !settled; { // until a decision starts nothing
				out := p.Step(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: 999}, nil)
				follow(p, ends, now, out)
				settled = !slices.ContainsFunc(out, func(a dispatch.Action) bool { return a.Act == dispatch.Start })
			}
			first := p.firstFree()
			for i, r := range p.Waiting {
				done := never
				for g, at := range first {
					if at != never {
						done = min(done, at+p.expect(g, r.Size))
					}
				}
				require.LessOrEqual(t, done, r.Deadline)
				require.True(t, i == 0 || p.Waiting[i-1].Arrival <= r.Arrival)
			}
		}
	})
}

// follow notes when what starts will end: as predicted.
func follow(p *matching, ends []dispatch.Time, now dispatch.Time, out []dispatch.Action) {
	for _, a := range out {
		if a.Act == dispatch.Start {
			ends[a.Executor] = max(now+1, p.Instances[a.Executor].Until)
		}
	}
}

// soonest is the instance that ends first; -1 where all idle.
func soonest(ends []dispatch.Time) int {
	best := -1
	for x, at := range ends {
		if at > 0 && (best < 0 || at < ends[best]) {
			best = x
		}
	}
	return best
}
