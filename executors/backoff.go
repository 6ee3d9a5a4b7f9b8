package executors

import "time"

// Backoff is a wait that doubles from Min to Max; zero means 50 ms to 5 s.
type Backoff struct {
	Min, Max time.Duration
}

// The wait of a zero Backoff.
const (
	defaultRetryMin = 50 * time.Millisecond
	defaultRetryMax = time.Second
)

// After is the wait before attempt n+1, when n attempts have failed; none
// before the first.
func (b Backoff) After(n int) time.Duration {
	if b == (Backoff{}) {
		b = Backoff{Min: defaultRetryMin, Max: defaultRetryMax}
	}
	if n <= 0 {
		return 0
	}
	wait := b.Min
	for range n - 1 {
		if wait *= 2; wait >= b.Max {
			return b.Max
		}
	}
	return min(wait, b.Max)
}
