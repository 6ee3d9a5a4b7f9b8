package sdk_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/harpagon/harpagon/sdk"
)

// The overhead of a request on a pipeline of one module whose emulated engine
// takes no time: everything but the network's own work.
//
//	go test -run xxx -bench Overhead ./sdk
func BenchmarkOverheadInProcess(b *testing.B) {
	overhead(b, start(b, 0, time.Minute, "").inProcess)
}

func BenchmarkOverheadHTTP(b *testing.B) {
	overhead(b, start(b, 0, time.Minute, "").overHTTP)
}

func BenchmarkOverheadGRPC(b *testing.B) {
	overhead(b, start(b, 0, time.Minute, "").overGRPC)
}

func overhead(b *testing.B, c *sdk.Client) {
	ctx := context.Background()
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		if _, err := c.Infer(ctx, "p", input); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
}
