package experiments

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAllIsServed runs far below what the pool can do, on one and on several
// workers.
func TestAllIsServed(t *testing.T) {
	for _, policy := range []string{"adaptive", "deferred", tc} {
		s := CoresSetting{Policy: policy, Models: 8, Executors: 64, Requests: 100_000, Share: 0.7}
		if policy != tc {
			r, err := Step(s)
			require.NoError(t, err)
			assert.InEpsilon(t, s.Requests, r.Served, 0.01, policy)
		}
		for _, s.Workers = range []int{1, 3} {
			r, err := Run(s)
			require.NoError(t, err)
			assert.InEpsilon(t, s.Requests, r.Served, 0.06, "%s on %d workers", policy, s.Workers)
			assert.Greater(t, r.Served, 5*r.Batches)
			assert.Less(t, r.Allocations, uint64(s.Requests*3/2), "only requests are allocated, and batches")
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, s := range []CoresSetting{
		{Policy: "adaptive", Executors: 1, Requests: 1, Workers: 1},
		{Policy: "adaptive", Models: 1, Requests: 1, Workers: 1},
		{Policy: "adaptive", Models: 1, Executors: 1, Workers: 1},
		{Policy: "none", Models: 1, Executors: 1, Requests: 1, Workers: 1},
		{Policy: "adaptive", Models: 1, Executors: 1, Requests: 1, Workers: 0},
		{Policy: "adaptive", Models: 2, Executors: 8, Requests: 1, Workers: 3},
	} {
		_, err := Run(s)
		assert.Error(t, err, "%+v", s)
	}
}

// BenchmarkDispatcher compares one core's Step with the dispatcher on one and two
// workers. Run it with -cpu 2.
func BenchmarkDispatcher(b *testing.B) {
	for _, policy := range []string{"adaptive", "deferred", tc} {
		s := CoresSetting{Policy: policy, Models: 64, Executors: 1000}
		if policy != tc {
			b.Run(policy+"/step", func(b *testing.B) { bench(b, s, Step) })
		}
		for _, s.Workers = range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", policy, s.Workers), func(b *testing.B) { bench(b, s, Run) })
		}
	}
}

func bench(b *testing.B, s CoresSetting, run func(CoresSetting) (CoresResult, error)) {
	s.Requests = b.N
	r, err := run(s)
	require.NoError(b, err)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.Rate(), "requests/s")
	b.ReportMetric(r.CoreRate(), "requests/core-s")
	b.ReportMetric(r.Cores(), "cores")
	b.ReportMetric(float64(r.Served)/float64(max(1, r.Batches)), "batch")
	b.ReportMetric(float64(r.Served)/float64(r.Requests), "served")
	b.ReportMetric(float64(r.Allocations)/float64(r.Requests), "allocs/request")
	b.ReportMetric(float64(r.Waited.Nanoseconds())/float64(r.Requests), "ns-waited/request")
}
