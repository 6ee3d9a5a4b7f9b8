package autoscale_test

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// A pipeline planned for 10 requests per second receives 18.
func ExampleDrift() {
	drift := autoscale.NewDrift(10, autoscale.DriftOptions{})
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 6 {
		m := autoscale.Measures{From: now, To: now.Add(5 * time.Second), Offered: 18}
		now = m.To
		if advice := drift.Observe(m); advice.Reschedule {
			fmt.Println(advice.Describe())
		}
	}
	// Output: rate 18/s for 30s, planned 10/s
}
