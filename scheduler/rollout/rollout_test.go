package rollout_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

func TestDecide(t *testing.T) {
	u := pipelines.Update{Canary: 0.1, Hold: time.Minute, Revert: pipelines.Revert{Attainment: 0.98, Cost: 1.2}}
	good := rollout.Seen{Generation: 2, Stable: rollout.Tally{Requests: 900, InTime: 900}, Canary: rollout.Tally{Requests: 100, InTime: 100}}
	with := func(n, inTime int64) rollout.Seen {
		s := good
		s.Canary = rollout.Tally{Requests: n, InTime: inTime}
		return s
	}
	poor := with(100, 90)
	poor.Stable.InTime = 810
	for name, c := range map[string]struct {
		held time.Duration
		seen rollout.Seen
		cost rollout.Cost
		want rollout.Verdict
		says string
	}{
		"good before the end":         {30 * time.Second, good, rollout.Cost{}, rollout.Hold, ""},
		"good at the end":             {time.Minute, good, rollout.Cost{}, rollout.Promote, "100 % of 100"},
		"bad at once":                 {10 * time.Second, with(40, 20), rollout.Cost{}, rollout.Revert, "below the 98 %"},
		"bad by chance perhaps":       {10 * time.Second, with(40, 38), rollout.Cost{}, rollout.Hold, ""},
		"bad at the end":              {time.Minute, with(100, 97), rollout.Cost{}, rollout.Revert, "97 % of 100"},
		"as bad as what serves":       {time.Minute, poor, rollout.Cost{}, rollout.Promote, "90 %"},
		"too few":                     {time.Minute, with(5, 0), rollout.Cost{}, rollout.Hold, "too few"},
		"too few, and they were late": {5 * time.Minute, with(5, 0), rollout.Cost{}, rollout.Revert, ""},
		"none came":                   {5 * time.Minute, rollout.Seen{Generation: 2}, rollout.Cost{}, rollout.Promote, ""},
		"dearer":                      {0, rollout.Seen{}, rollout.Cost{Stable: 1, Canary: 1.3}, rollout.Revert, "1.2 times"},
		"a little dearer":             {time.Minute, good, rollout.Cost{Stable: 1, Canary: 1.1}, rollout.Promote, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := rollout.Decide(u, c.held, c.seen, c.cost)
			require.Equal(t, c.want, d.Verdict, d.Reason)
			require.Contains(t, d.Reason, c.says)
		})
	}
}

// order is of verdicts, the worst first.
var order = map[rollout.Verdict]int{rollout.Revert: 0, rollout.Hold: 1, rollout.Promote: 2}

// One more request in time never makes the verdict worse, and one that was not never
// better, as long as the number of looks and of counted requests stays the same.
func TestDecideIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := pipelines.Update{Canary: 0.1, Hold: time.Minute, Revert: pipelines.Revert{Attainment: rapid.Float64Range(0.01, 1).Draw(t, "least")}}
		n := rapid.Int64Range(rollout.Enough, 5000).Draw(t, "requests")
		seen := rollout.Seen{Stable: rollout.Tally{Requests: 1000, InTime: rapid.Int64Range(1, 1000).Draw(t, "stable")}}
		seen.Canary = rollout.Tally{Requests: n, InTime: rapid.Int64Range(0, n).Draw(t, "in time")}
		held := time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "held"))
		before := order[rollout.Decide(u, held, seen, rollout.Cost{}).Verdict]
		better, worse := seen, seen
		better.Canary = rollout.Tally{Requests: n + 1, InTime: seen.Canary.InTime + 1}
		worse.Canary.Requests++
		require.GreaterOrEqual(t, order[rollout.Decide(u, held, better, rollout.Cost{}).Verdict], before)
		require.LessOrEqual(t, order[rollout.Decide(u, held, worse, rollout.Cost{}).Verdict], before)
		if held >= rollout.Patience*time.Minute {
			require.NotEqual(t, order[rollout.Hold], before, "a hold ends")
		}
	})
}

// A generation that is as good as the one before is hardly ever taken back, however often
// one looks, and one that is late a third of the time is, before a fifth of the hold is over.
func TestDecideTellsChanceFromChange(t *testing.T) {
	const runs, perLook = 2000, 10
	u := pipelines.Update{Canary: 0.1, Hold: time.Minute}
	run := func(r *rand.Rand, attains float64) (early bool, at time.Duration) {
		seen := rollout.Seen{Stable: rollout.Tally{Requests: 1e6, InTime: 0.995e6}}
		for held := time.Duration(0); held < u.Hold; held += 5 * time.Second {
			for range perLook {
				seen.Canary.Requests++
				if r.Float64() < attains {
					seen.Canary.InTime++
				}
			}
			if rollout.Decide(u, held, seen, rollout.Cost{}).Verdict == rollout.Revert {
				return true, held
			}
		}
		return false, 0
	}
	r := rand.New(rand.NewPCG(1, 2))
	wrong, found := 0, 0
	for range runs {
		if early, _ := run(r, 0.995); early {
			wrong++
		}
		if early, at := run(r, 0.66); early && at <= u.Hold/5 {
			found++
		}
	}
	require.LessOrEqual(t, wrong, runs/200)
	require.GreaterOrEqual(t, found, runs*99/100)
}

func TestDrawKeepsShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := pipelines.Update{Canary: rapid.Float64Range(0, 1).Draw(t, "canary")}
		u.Shadow = rapid.Float64Range(0, 1-u.Canary).Draw(t, "shadow")
		n := rapid.Int64Range(1, 3000).Draw(t, "requests")
		count := map[rollout.To]int64{}
		for i := range n {
			count[rollout.Draw(i+1, u)]++
		}
		require.InDelta(t, float64(n)*u.Canary, float64(count[rollout.Canary]), 2)
		require.InDelta(t, float64(n)*u.Shadow, float64(count[rollout.Shadow]), 2)
	})
	tenth := pipelines.Update{Canary: 0.1}
	for n := int64(1); n <= 1000; n++ {
		require.Equal(t, n%10 == 0, rollout.Draw(n, tenth) == rollout.Canary, n)
	}
	require.Equal(t, rollout.Stable, rollout.Draw(math.MaxInt32, pipelines.Update{}))
}

func TestSeenAddsUpInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) rollout.Seen {
			n := rapid.Int64Range(0, 1000)
			return rollout.Seen{Generation: 3, Stable: rollout.Tally{Requests: n.Draw(t, "n"), InTime: n.Draw(t, "in")},
				Canary: rollout.Tally{Requests: n.Draw(t, "cn"), InTime: n.Draw(t, "cin")}, Compared: n.Draw(t, "c"), Different: n.Draw(t, "d")}
		})
		a, b, c := one.Draw(t, "a"), one.Draw(t, "b"), one.Draw(t, "c")
		require.Equal(t, a.Add(b).Add(c), c.Add(a.Add(b)))
	})
}

func TestNames(t *testing.T) {
	service, ok := rollout.Of(rollout.Name("traffic"))
	require.True(t, ok)
	require.Equal(t, "traffic", service)
	_, ok = rollout.Of("traffic")
	require.False(t, ok)
}
