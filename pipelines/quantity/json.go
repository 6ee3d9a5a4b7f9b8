package quantity

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// MS is a duration that JSON shows as a number of milliseconds.
type MS time.Duration

// MarshalJSON writes the number of milliseconds.
func (m MS) MarshalJSON() ([]byte, error) { return json.Marshal(Millis(time.Duration(m))) }

// UnmarshalJSON reads a number of milliseconds, rounded to the nanosecond.
func (m *MS) UnmarshalJSON(b []byte) error {
	var ms float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return err
	}
	ns := math.Round(ms * float64(time.Millisecond))
	if math.Abs(ns) >= math.MaxInt64 {
		return fmt.Errorf("%v ms is longer than a duration can be", ms)
	}
	*m = MS(ns)
	return nil
}
