package dispatching

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// TestStaggeredIsThePaper holds equation 2 to the numbers of Symphony's
// table 4.
func TestStaggeredIsThePaper(t *testing.T) {
	for i, want := range []struct {
		batch int
		rate  float64
	}{{16, 5839}, {8, 1083}} {
		batch, rate := Table4()[i].Staggered(8)
		assert.Equal(t, want.batch, batch)
		assert.InDelta(t, want.rate, rate, 1)
	}
}

// TestSLOsAreThePapers: tables 5 and 6 set every SLO to max(20, 2·l(4)).
func TestSLOsAreThePapers(t *testing.T) {
	assert.Len(t, GTX1080Ti(), 35)
	assert.Len(t, A100(), 37)
	for _, n := range append(GTX1080Ti(), A100()...) {
		assert.InDelta(t, max(20, 2*(4*n.Each+n.Fixed)), n.SLO, 1, n.Name)
		assert.NotEmpty(t, n.Table(largestBatch), n.Name)
	}
}

func TestSettingsAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		assert.False(t, seen[s.Name], "twice: %s", s.Name)
		seen[s.Name] = true
		assert.Contains(t, Parts(), s.Part)
		assert.NotEqual(t, s.Part, Title(s.Part))
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
	s := Of(PartTable4)[0]
	row := s.Row(0)
	for _, policy := range shared.Names() {
		m, err := s.Measure(policy, Quick(), nil)
		require.NoError(t, err)
		row.Policies = append(row.Policies, m)
	}
	require.NoError(t, s.Limit(&row, Quick()))
	assert.Greater(t, row.Over("adaptive", "deferred"), 1.0)
	assert.Greater(t, row.Over("deferred", "nexus"), 1.1)
	assert.Greater(t, row.Over("nexus", "clockwork"), 1.0)
	assert.Less(t, row.Of("adaptive").Goodput, row.Physical)
	assert.LessOrEqual(t, row.Physical, s.Bound())
	assert.Greater(t, row.Of("adaptive").Overload, 0.95)
	table := Table{Part: PartTable4, Title: Title(PartTable4), Policies: shared.Names(), Rows: []Row{row}}
	assert.Contains(t, table.Markdown(), "| ResNet50 | ")
	assert.Contains(t, table.Describe(), "Adaptive over deferred: 1.0")
}

// TestManyUnlikeModels: where dozens of models share a few devices, one whose
// time hardly grows with its batch is not left without a device because it
// waited for the last moment.
func TestManyUnlikeModels(t *testing.T) {
	for _, s := range Of(PartMixed) {
		if s.Devices > 16 {
			continue
		}
		row := s.Row(0)
		for _, policy := range []string{"adaptive", "deferred"} {
			m, err := s.Measure(policy, Quick(), nil)
			require.NoError(t, err)
			row.Policies = append(row.Policies, m)
		}
		assert.Greater(t, row.Over("adaptive", "deferred"), 1.1, s.Name)
	}
}

// TestFrontends holds the case for one scheduler to the paper's table 2.
func TestFrontends(t *testing.T) {
	for _, u := range Frontends(1) {
		assert.InEpsilon(t, u.Printed, u.Deviation, 0.06)
	}
	assert.Equal(t, 6, strings.Count(DescribeFrontends(Frontends(2)), "\n"))
}

func TestSpeedCountsWithTheClockItIsGiven(t *testing.T) {
	tick := time.Duration(0)
	clock := func() time.Duration { tick += time.Second; return tick }
	p, err := Speed("adaptive", 2, 3, 5_000, clock)
	require.NoError(t, err)
	assert.InEpsilon(t, 5_000, p.Rate, 0.1)
	assert.Greater(t, p.Batch, 1.0)
	assert.Contains(t, Paces{p}.Describe(), "| adaptive | 2 | 0.0")
}

func ExampleSetting_Measure() {
	s := Of(PartTable4)[0]
	m, err := s.Measure("adaptive", Quick(), nil)
	if err != nil {
		panic(err)
	}
	_ = m.Goodput // requests per second of which 99 % are in time
}
