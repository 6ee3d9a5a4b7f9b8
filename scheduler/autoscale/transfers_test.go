package autoscale

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// way plays spans of five seconds in which the hosts' batches took so long, and returns
// what was advised and when.
func way(d *Transfers, begin int, spans int, hosts map[string]time.Duration) (all []TransferAdvice, at []time.Duration) {
	const span = 5 * time.Second
	for i := begin; i < begin+spans; i++ {
		m := Measures{From: start.Add(time.Duration(i) * span), To: start.Add(time.Duration(i+1) * span), Modules: []ModuleMeasures{{Name: "m"}}}
		for host, p99 := range hosts {
			m.Modules[0].Transfers = append(m.Modules[0].Transfers, HostTransfer{Host: host, Batches: 64, P50: p99 / 2, P99: p99})
		}
		if a, yes := d.Observe(m, 400*time.Millisecond, 2); yes {
			all, at = append(all, a), append(at, m.To.Sub(start))
			d.Reset(a.Transfer, m.To)
		}
	}
	return all, at
}

func TestASlowHostIsCountedOn(t *testing.T) {
	var d Transfers
	d.Reset(0, start)
	advice, at := way(&d, 0, 40, map[string]time.Duration{"near": time.Millisecond, "far": 7600 * time.Microsecond})
	require.Len(t, advice, 1)
	assert.Equal(t, 2*time.Minute, at[0], "after the cooldown")
	assert.Equal(t, 8*time.Millisecond, advice[0].Transfer)
	assert.Equal(t, "the way to executors on far and back takes 7.6 ms (99 of 100 batches), the plan counts on 0 ms", advice[0].Describe())

	// It is quick again: believed slowly, and then no plan counts on it.
	advice, _ = way(&d, 40, 200, map[string]time.Duration{"near": time.Millisecond, "far": time.Millisecond})
	require.NotEmpty(t, advice)
	assert.Zero(t, advice[len(advice)-1].Transfer)
}

func TestWhatIsNoLongerWay(t *testing.T) {
	for name, hosts := range map[string]map[string]time.Duration{
		"none":              {},
		"what margins keep": {"h": 2 * time.Millisecond},
	} {
		var d Transfers
		d.Reset(0, start)
		advice, _ := way(&d, 0, 100, hosts)
		assert.Empty(t, advice, name)
	}
	var d Transfers
	d.Reset(0, start)
	way(&d, 0, 30, map[string]time.Duration{"h": time.Millisecond})
	way(&d, 30, 2, map[string]time.Duration{"h": 5 * time.Millisecond})
	advice, _ := way(&d, 32, 60, map[string]time.Duration{"h": 200 * time.Microsecond})
	assert.Empty(t, advice, "ten seconds of a busy machine")
}

func TestTransfersAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Transfers
		d.Reset(0, start)
		slo, modules := time.Duration(rapid.Int64Range(1e6, 1e10).Draw(t, "slo")), rapid.IntRange(1, 6).Draw(t, "modules")
		for i := range rapid.IntRange(1, 20).Draw(t, "spans") {
			m := Measures{From: start.Add(time.Duration(i) * time.Second), To: start.Add(time.Duration(i+1) * time.Second)}
			m.Modules = []ModuleMeasures{{Transfers: []HostTransfer{{Host: "h", Batches: 64, P99: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "p99"))}}}}
			d.Observe(m, slo, modules)
			if way := d.Reserve(slo, modules); way > 0 && (way*time.Duration(modules) > slo/4 || way < d.Reserve(slo/2, modules)) {
				t.Fatalf("counts %v at %d modules of %v", way, modules, slo)
			}
		}
		raw, err := json.Marshal(d)
		require.NoError(t, err)
		var back Transfers
		require.NoError(t, json.Unmarshal(raw, &back))
		require.True(t, d.Last.Equal(back.Last))
		require.Equal(t, d.Reserve(slo, modules), back.Reserve(slo, modules))
	})
}
