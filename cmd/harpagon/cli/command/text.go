package command

import (
	"time"
)

// Milliseconds is a duration as JSON and tables say it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Share is the part of the total rate that a pipeline is offered.
func Share(rate, total float64, n int) float64 {
	if total > 0 {
		return rate / total
	}
	return 1 / float64(n)
}
