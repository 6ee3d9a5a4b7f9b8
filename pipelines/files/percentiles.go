package files

import (
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// mostMillis is the longest time in a file of percentiles, an hour.
const mostMillis = 3.6e6

// ReadPercentiles reads how long something took: "percent,milliseconds" a line, percents
// rising from 0 to 100, times not falling. Lines that begin with # and empty lines are
// passed over, as is a first line of names. Findings carry line and column.
func ReadPercentiles(filename string, src []byte) (percents []float64, times []time.Duration, diags hcl.Diagnostics) {
	r := newColumns(filename, src)
	for r.next() {
		if len(r.fields) != 2 {
			r.report(0, "Not two columns", "A line is a percentile and its time in milliseconds: PERCENT,MS.")
			break
		}
		percent, ok := r.number(0)
		ms, fine := r.number(1)
		if !ok || !fine {
			continue
		}
		at, n := time.Duration(math.Round(ms*float64(time.Millisecond))), len(percents)
		switch {
		case percent < 0 || percent > 100:
			r.report(0, "Invalid percentile", "A percentile is from 0 to 100.")
		case !(ms >= 0 && ms <= mostMillis):
			r.report(1, "Time out of range", fmt.Sprintf("A time is from 0 to %.0f milliseconds.", mostMillis))
		case n > 0 && percent <= percents[n-1]:
			r.report(0, "Percentiles out of order", fmt.Sprintf("Percentile %v comes after %v; sort the lines, each percentile once.", percent, percents[n-1]))
		case n > 0 && at < times[n-1]:
			r.report(1, "Time falls", fmt.Sprintf("A higher percentile cannot be shorter than the one above, %v.", times[n-1]))
		default:
			percents, times = append(percents, percent), append(times, at)
		}
	}
	if len(percents) == 0 && !r.diags.HasErrors() {
		r.report(0, "No percentiles", "The file holds no percentile.")
	}
	return percents, times, r.diags
}
