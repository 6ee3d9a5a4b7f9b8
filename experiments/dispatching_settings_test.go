package experiments

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// TestSLOsAreThePapers: tables 5 and 6 set every SLO to max(20, 2·l(4)).
func TestSLOsAreThePapers(t *testing.T) {
	assert.Len(t, gtx1080Ti(), 35)
	assert.Len(t, a100(), 37)
	for _, n := range append(gtx1080Ti(), a100()...) {
		assert.InDelta(t, max(20, 2*(4*n.Each+n.Fixed)), n.SLO, 1, n.Name)
		assert.NotEmpty(t, n.Table(largestBatch), n.Name)
	}
}

func TestSettingsAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range dispatchSettings() {
		assert.False(t, seen[s.Name], "twice: %s", s.Name)
		seen[s.Name] = true
		assert.True(t, slices.ContainsFunc(parts(), func(p dispatchPart) bool { return p.name == s.Part }), s.Part)
		sum := 0.0
		for _, l := range s.Loads(1000) {
			sum += l.Rate
		}
		assert.InDelta(t, 1000, sum, 1e-6)
	}
}

// TestMeasure looks at table 4 shortly: the order of the policies, and that
// nothing exceeds what is possible.
func TestMeasure(t *testing.T) {
	s := Of(partTable4)[0]
	got := map[string]Measured{}
	for _, policy := range shared.Names() {
		m, err := s.Measure(policy, Quick(), nil)
		require.NoError(t, err)
		got[policy] = m
	}
	physical, err := s.Physical(Quick())
	require.NoError(t, err)
	assert.Greater(t, got[adaptive].Goodput, got[deferred].Goodput)
	assert.Greater(t, got[deferred].Goodput, 1.1*got["nexus"].Goodput)
	assert.Greater(t, got["nexus"].Goodput, got["clockwork"].Goodput)
	assert.Less(t, got[adaptive].Goodput, physical)
	assert.LessOrEqual(t, physical, s.Bound())
	assert.Greater(t, got[adaptive].Overload, 0.95)
}

// TestManyUnlikeModels: where dozens of models share devices, one whose time
// hardly grows with its batch is not left without a device because it waited for
// the last moment, and one whose batches are long not because shorter ones are
// always due sooner: more is borne, with 99 % of each model's requests in time,
// than by the policies that come nearest.
func TestManyUnlikeModels(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	effort := Effort{Requests: 8_000, Each: 2_000, Seeds: 1, Tolerance: 0.004}
	for _, s := range Of(partMixed) {
		if s.Devices > 64 || s.Popular > 0 || os.Getenv("HARPAGON_LONG") == "" && len(s.Models) != 37 {
			continue
		}
		ours, err := s.Measure(adaptive, effort, nil)
		require.NoError(t, err)
		for _, policy := range []string{deferred, "eager", "eager:window"} {
			theirs, err := s.Measure(policy, effort, nil)
			require.NoError(t, err)
			assert.Greater(t, ours.Goodput, theirs.Goodput, "%s: %s", s.Name, policy) // both kinds of eager, too
			if policy == deferred && len(s.Models) == 37 {
				assert.Greater(t, ours.Goodput, 1.05*theirs.Goodput, s.Name)
			}
		}
	}
}

// TestFrontends holds the case for one scheduler to the paper's table 2.
func TestFrontends(t *testing.T) {
	for _, u := range Frontends(1) {
		assert.InEpsilon(t, u.Printed, u.Deviation, 0.06)
	}
}

func TestSpeedCountsWithTheClockItIsGiven(t *testing.T) {
	tick := time.Duration(0)
	clock := func() time.Duration { tick += time.Second; return tick }
	p, err := Speed("adaptive", 2, 3, 5_000, clock)
	require.NoError(t, err)
	assert.InEpsilon(t, 5_000, p.Rate, 0.1)
	assert.Greater(t, p.Batch, 1.0)
}

func ExampleDispatchSetting_Measure() {
	s := Of(partTable4)[0]
	m, err := s.Measure("adaptive", Quick(), nil)
	if err != nil {
		panic(err)
	}
	_ = m.Goodput // requests per second of which 99 % are in time
}
