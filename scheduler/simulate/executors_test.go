package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// durationsOf is the time of batches of 1 to largest.
func durationsOf(fixed, each time.Duration, largest int) (all []time.Duration) {
	for n := 1; n <= largest; n++ {
		all = append(all, fixed+time.Duration(n)*each)
	}
	return all
}

func one(name string, slo time.Duration) pipelines.Pipeline {
	return pipelines.Pipeline{Name: name, SLO: slo, Modules: []pipelines.Module{{Name: "m"}}}
}

// drawOptions draws noise and an outage of the first device.
func drawOptions(t *rapid.T) Options {
	o := Options{
		Seed: rapid.Uint64Range(0, 9).Draw(t, "seed"), Duration: 2 * time.Second, Noise: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "noise"),
	}
	if rapid.Bool().Draw(t, "outage") {
		o.Outages = []Outage{{Device: 0, From: 600 * ms, To: 900 * ms}, {Device: 0, From: 1100 * ms}}
	}
	return o
}

// playTwice plays with a new policy each time: both runs must be the same, and
// all requests accounted for.
func playTwice(t *rapid.T, loads []Load, kinds []Executors, policy func() dispatch.Policy, o Options) Result {
	r, err := OnExecutors(loads, kinds, policy(), o)
	require.NoError(t, err)
	balanced(t, r)
	again, err := OnExecutors(loads, kinds, policy(), o)
	require.NoError(t, err)
	require.Equal(t, r, again)
	return r
}

// TestQueriesOnInstances: a query is a batch of its items, and its duration follows from
// its size.
func TestQueriesOnInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []Executors{
			{Hardware: "base", Count: rapid.IntRange(1, 3).Draw(t, "base"), Durations: durationsOf(ms, ms, 40)},
			{Hardware: "other", Count: rapid.IntRange(0, 3).Draw(t, "other"), Durations: durationsOf(0, 3*ms, 40)},
		}
		queries := Load{
			Pipeline: one("q", 60*ms), Arrivals: drawArrivals(t), Rate: rapid.Float64Range(0, 400).Draw(t, "rate"),
			Sizes: rapid.SliceOfN(rapid.Int32Range(1, 40), 1, 20).Draw(t, "sizes"),
		}
		policy := func() dispatch.Policy {
			var types []matching.InstanceType
			for _, k := range kinds {
				types = append(types, matching.InstanceType{Name: k.Hardware, Latency: pipelines.Latency{
					{Batch: 1, Concurrency: 1, Duration: k.Durations[0]}, {Batch: 40, Concurrency: 1, Duration: k.Durations[39]},
				}})
			}
			p, err := matching.New(matching.Options{Types: types, SLO: 60 * ms, Largest: 40})
			require.NoError(t, err)
			return p
		}
		o := drawOptions(t)
		o.Observer.Batch = func(b Batch) {
			require.Len(t, b.Requests, 1)
			require.Contains(t, queries.Sizes, int32(b.Size))
			if o.Noise == 0 {
				require.Equal(t, kinds[b.Group].Durations[b.Size-1], b.End-b.Begin)
			}
		}
		r := playTwice(t, []Load{queries}, kinds, policy, o)
		require.Len(t, r.Devices, kinds[0].Count+kinds[1].Count)
	})
}

// TestApplicationsOnFunctions: functions come up as they are called, so that no request
// waits longer than its timeout, and no batch takes longer than the longest.
func TestApplicationsOnFunctions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 2).Draw(t, "groups")
		var loads []Load
		var kinds []Executors
		var o grouped.Options
		for g := range groups {
			largest := rapid.IntRange(1, 8).Draw(t, "batch")
			e := Executors{Hardware: fmt.Sprint(g), Elastic: true, Durations: durationsOf(20*ms, ms, largest)}
			if rapid.Bool().Draw(t, "varies") {
				e.Longest = durationsOf(30*ms, 2*ms, largest)
			}
			kinds = append(kinds, e)
			group := grouped.Group{Batch: largest, Duration: 50 * ms}
			for range rapid.IntRange(1, 2).Draw(t, "applications") {
				group.Applications = append(group.Applications, grouped.Application{Class: int32(len(loads)), Timeout: 40 * ms, SLO: 100 * ms})
				loads = append(loads, Load{Pipeline: one(fmt.Sprint("a", len(loads)), 100*ms), Arrivals: drawArrivals(t), Rate: rapid.Float64Range(0, 300).Draw(t, "rate")})
			}
			o.Groups = append(o.Groups, group)
		}
		options := Options{Seed: rapid.Uint64Range(0, 9).Draw(t, "seed"), Duration: 2 * time.Second}
		called := 0
		options.Observer.Batch = func(b Batch) {
			called++
			for _, r := range b.Requests {
				require.LessOrEqual(t, b.Begin-r.Ready, 40*ms)
				require.True(t, slices.ContainsFunc(o.Groups[b.Group].Applications, func(a grouped.Application) bool { return int(a.Class) == r.Load }))
			}
			if longest := kinds[b.Group].Longest; longest != nil {
				require.LessOrEqual(t, b.End-b.Begin, longest[b.Size-1])
			} else {
				require.Equal(t, kinds[b.Group].Durations[b.Size-1], b.End-b.Begin)
			}
		}
		r := playTwice(t, loads, kinds, func() dispatch.Policy { return grouped.New(o) }, options)
		require.LessOrEqual(t, len(r.Devices), called+groups, "one more than runs")
		for _, p := range r.Pipelines {
			require.Equal(t, p.Requests, p.Completed)
		}
	})
}

func TestExecutorsThatCannotBe(t *testing.T) {
	policy := grouped.New(grouped.Options{})
	two := pipelines.Pipeline{Name: "p", SLO: ms, Modules: []pipelines.Module{step("a", ms, 1), step("b", ms, 1, "a")}}
	_, err := OnExecutors([]Load{{Pipeline: two}}, nil, policy, Options{})
	assert.ErrorContains(t, err, "several modules")
	_, err = OnExecutors([]Load{{Pipeline: one("p", ms)}}, []Executors{{Hardware: "f", Durations: []time.Duration{ms}, Longest: []time.Duration{}}}, policy, Options{})
	assert.ErrorContains(t, err, "1 durations and 0 longest")
	_, err = OnExecutors([]Load{{Pipeline: one("p", ms)}}, []Executors{{Hardware: "f", Count: 2, Elastic: true}}, policy, Options{})
	assert.ErrorContains(t, err, "leave its count of 2 out")
}

func TestDrawLatency(t *testing.T) {
	r := RandomSource(1, ForNoise, 0)
	above := 0
	for range 10_000 {
		d := DrawLatency(r, 100*ms, 120*ms)
		require.True(t, d > 80*ms-1 && d <= 120*ms)
		if d > 100*ms {
			above++
		}
	}
	assert.InDelta(t, 5000, above, 200)
	assert.Equal(t, 100*ms, DrawLatency(r, 100*ms, 90*ms))
}
