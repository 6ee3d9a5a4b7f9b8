package executors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEverySizeIsRun(t *testing.T) {
	var ran []int
	run := func(_ context.Context, n int) error {
		ran = append(ran, n)
		if n == 3 {
			return errors.New("no batch of 3")
		}
		return nil
	}
	require.NoError(t, WarmUp(t.Context(), []int{1, 8, 2}, run))
	require.Equal(t, []int{8, 2, 1}, ran)
	require.Error(t, WarmUp(t.Context(), []int{4, 3}, run))
}

func TestSizesInBetween(t *testing.T) {
	for name, c := range map[string]struct {
		prepare time.Duration // for each size
		refuses int
		want    []int
	}{
		"an engine that prepares for each":   {prepare: time.Second, want: []int{7, 7, 6, 5, 3}},
		"one that does not":                  {want: []int{7, 7, 6, 6}},
		"one that refuses what is not named": {prepare: time.Second, refuses: 7, want: []int{7}},
		"or the next":                        {prepare: time.Second, refuses: 6, want: []int{7, 7, 6}},
		"one that takes too long":            {prepare: time.Minute, want: []int{7, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran []int
				known := map[int]bool{}
				WarmBetween(t.Context(), []int{1, 2, 4, 8}, func(_ context.Context, n int) error {
					if ran = append(ran, n); n == c.refuses {
						return errors.New("no such batch")
					}
					if !known[n] {
						time.Sleep(c.prepare)
					}
					known[n] = true
					time.Sleep(time.Duration(n) * time.Millisecond)
					return nil
				})
				require.Equal(t, c.want, ran)
			})
		})
	}
	WarmBetween(t.Context(), nil, func(context.Context, int) error { t.Error("nothing to run"); return nil })
}
