package histogram

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Percentiles of durations. All are zero where nothing was measured. In JSON they
// are whole nanoseconds; MS has what people's tools read.
type Percentiles struct {
	P50 time.Duration `json:"p50_ns"`
	P90 time.Duration `json:"p90_ns,omitempty"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// Percentiles of what was counted; Max is exact.
func (h *Histogram) Percentiles() Percentiles {
	return Percentiles{P50: h.Quantile(0.50), P90: h.Quantile(0.90), P99: h.Quantile(0.99), Max: h.Max()}
}

// MS are percentiles in JSON that others read: in milliseconds.
type MS struct {
	P50 quantity.MS `json:"p50"`
	P99 quantity.MS `json:"p99"`
	Max quantity.MS `json:"max"`
}

// MS writes the percentiles in milliseconds.
func (p Percentiles) MS() MS { return MS{quantity.MS(p.P50), quantity.MS(p.P99), quantity.MS(p.Max)} }
