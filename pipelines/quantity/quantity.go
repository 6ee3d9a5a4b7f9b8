// Package quantity writes numbers, money, shares and durations for people: the
// same everywhere, with as many digits as a reader can use, and never with an
// exponent.
//
//	quantity.Number(41.6667)                     // "41.67"
//	quantity.Money(0.0123)                       // "0.0123"
//	quantity.Percent(0.9931)                     // "99.31 %"
//	quantity.Duration(87500 * time.Microsecond)  // "87.5 ms"
//	quantity.Count(2, "device")                  // "2 devices"
//	quantity.Bytes(3 << 29)                      // "1.5 GiB"
package quantity

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// figures is how many significant digits a number has.
const figures = 4

// Number writes a number with four significant digits, and every digit before
// the point.
func Number(x float64) string { return significant(x, figures) }

// Money writes an amount with two digits behind the point, and with three
// significant ones below one: a share of one core costs little in an hour, and
// is not nothing.
func Money(x float64) string {
	if x > 0 && x < 1 {
		return significant(x, 3)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// Percent writes a share of one.
func Percent(share float64) string { return Number(100*share) + " %" }

// Duration writes a duration in milliseconds, and from ten seconds on in
// seconds, with a space before the unit.
func Duration(d time.Duration) string {
	if d >= 10*time.Second {
		return Number(d.Seconds()) + " s"
	}
	return Number(Millis(d)) + " ms"
}

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Count writes how many there are of something, whose plural ends in s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// significant rounds to so many significant digits, and to whole numbers where
// these have more.
func significant(x float64, digits int) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Sprint(x)
	}
	if math.Abs(x) >= math.Pow10(digits-1) {
		return strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil { // what was just written can be read
		return strconv.FormatFloat(x, 'g', digits, 64)
	}
	if short == 0 {
		short = 0 // no sign
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// Bytes writes a size of memory in the largest binary unit that fits.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, u := float64(n), 0
	for ; x >= 1024 && u < len(units)-1; u++ {
		x /= 1024
	}
	return Number(x) + " " + units[u]
}

var sizes = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*(B|[KMGT]i?B)$`)

// ParseBytes reads "16GiB", "512 MB" and the like.
func ParseBytes(s string) (int64, error) {
	m := sizes.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf(`%q is not a size of memory: write a number with its unit, such as "16GiB" or "512MiB"`, s)
	}
	x, _ := strconv.ParseFloat(m[1], 64) // the form has been checked
	base, power := 1000.0, strings.IndexByte("BKMGT", m[2][0])
	if strings.HasSuffix(m[2], "iB") {
		base = 1024
	}
	if x *= math.Pow(base, float64(power)); x > math.MaxInt64/2 {
		return 0, fmt.Errorf("%s of memory is too large", s)
	}
	return int64(x), nil
}

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
