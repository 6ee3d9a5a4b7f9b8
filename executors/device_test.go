package executors

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
)

func user(concurrency int) *queueUser { return &queueUser{Concurrency: concurrency} }

func TestDeviceServesTheEarliestDueFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, now := new(deviceQueue), time.Now()
		holder := user(1)
		waited, err := d.Acquire(t.Context(), holder, now)
		require.NoError(t, err)
		require.False(t, waited)
		var order []int
		dues := []time.Time{{}, now.Add(3), now.Add(1), now.Add(2), now.Add(1)}
		for i, due := range dues {
			go func() {
				waited, err := d.Acquire(t.Context(), user(1), due)
				require.NoError(t, err)
				require.True(t, waited)
				order = append(order, i)
				time.Sleep(time.Millisecond)
				d.Release()
			}()
			synctest.Wait()
		}
		d.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 4, 3, 1, 0}, order, "no due time goes last, ties by arrival")
		require.Zero(t, d.running)
	})
}

// TestDeviceDoesNotMindAClockThatIsSet: due times are read as the clock is set by hours in
// between, and the order is that of the time that is left.
func TestDeviceDoesNotMindAClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(deviceQueue)
		_, err := d.Acquire(t.Context(), user(1), time.Now())
		require.NoError(t, err)
		var order []int
		for i, set := range []time.Duration{0, -time.Hour, time.Hour, -2 * time.Hour} {
			go func() {
				due := testkit.SetClock(time.Now(), set).Add(time.Second)
				_, err := d.Acquire(t.Context(), user(1), due)
				require.NoError(t, err)
				order = append(order, i)
				d.Release()
			}()
			time.Sleep(time.Millisecond)
		}
		d.Release()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
	})
}

func TestDeviceRunsOneExecutorSideBySideButNotTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, now := new(deviceQueue), time.Now()
		a, b := user(2), user(2)
		for range 2 {
			waited, err := d.Acquire(t.Context(), a, now.Add(time.Hour))
			require.NoError(t, err)
			require.False(t, waited)
		}
		got := make(chan string, 2)
		go func() { _, _ = d.Acquire(t.Context(), b, now.Add(time.Minute)); got <- "b" }()
		synctest.Wait()
		d.Release()
		synctest.Wait()
		require.Empty(t, got, "a still runs")
		go func() { _, _ = d.Acquire(t.Context(), a, now.Add(time.Hour)); got <- "late a" }()
		synctest.Wait()
		require.Empty(t, got, "a waiting batch is not overtaken by one due later")
		waited, err := d.Acquire(t.Context(), a, now)
		require.NoError(t, err)
		require.False(t, waited, "but by one due earlier that may run beside its own")
		d.Release()
		d.Release()
		require.Equal(t, "b", <-got)
		d.Release()
		require.Equal(t, "late a", <-got)
	})
}

func TestDeviceForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(deviceQueue)
		_, err := d.Acquire(t.Context(), user(1), time.Time{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { _, err := d.Acquire(ctx, user(1), time.Time{}); got <- err }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
		d.Release()
		require.Zero(t, d.running)
		require.Empty(t, d.queue)
	})
}

// The order of starts is that of a plain list sorted by due time, ties by
// arrival.
func TestDeviceAgreesWithASortedList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dues := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(rt, "dues")
		synctest.Test(t, func(t *testing.T) {
			d, epoch := new(deviceQueue), time.Now()
			_, _ = d.Acquire(t.Context(), user(1), epoch)
			var got []int
			for i, due := range dues {
				go func() {
					_, _ = d.Acquire(t.Context(), user(1), epoch.Add(time.Duration(due)))
					got = append(got, i)
					time.Sleep(time.Microsecond)
					d.Release()
				}()
				synctest.Wait()
			}
			d.Release()
			time.Sleep(time.Second)
			synctest.Wait()
			want := make([]int, len(dues))
			for i := range want {
				want[i] = i
			}
			slices.SortStableFunc(want, func(a, b int) int { return dues[a] - dues[b] })
			require.Equal(t, want, got)
		})
	})
}
