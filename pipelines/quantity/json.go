package quantity

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"
)

// MS is a duration that JSON shows as a number of milliseconds.
type MS time.Duration

// MarshalJSON writes the number of milliseconds, to the nanosecond.
func (m MS) MarshalJSON() ([]byte, error) {
	text := big.NewRat(int64(m), int64(time.Millisecond)).FloatString(6)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

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
	if exact, ok := new(big.Rat).SetString(string(b)); ok && math.Abs(ns) >= 1<<50 { // a float64 has no place for its nanoseconds
		exact.Mul(exact, big.NewRat(int64(time.Millisecond), 1))
		*m = MS(new(big.Int).Quo(exact.Num(), exact.Denom()).Int64())
	}
	return nil
}
