package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// late is a pool some of whose executors are slower than profiled.
type late struct {
	punctual, slow int
	by             time.Duration // batches of the slow ones are back
	rate           float64
	options        Options
}

// attains is the share of ResNet50's requests in time.
func (l late) attains(t *testing.T, policy string) float64 {
	p := resnet50()
	var profile, slow []time.Duration
	for _, q := range p.Modules[0].Profile.Points {
		profile, slow = append(profile, q.Duration), append(slow, q.Duration+l.by)
	}
	kinds := []Executors{{Hardware: "gpu", Count: l.punctual, Durations: profile}}
	if l.slow > 0 { // first, so that who takes executors by their numbers takes these
		kinds = append([]Executors{{Hardware: "slow", Count: l.slow, Durations: slow}}, kinds...)
	}
	decides, err := shared.New(policy, shared.Options{Models: []shared.Model{{Durations: profile, SLO: p.SLO}}, Delay: l.options.Delay.Planned()})
	require.NoError(t, err)
	l.options.Duration, l.options.Warmup = 20*time.Second, 2*time.Second
	load := Load{Pipeline: p, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: l.rate}
	r, err := OnExecutors([]Load{load}, kinds, decides, l.options)
	require.NoError(t, err)
	return r.Pipelines[0].Attainment
}

// A host whose batches are later than profiled does no harm: at a load that the others
// nearly bear, as many requests are in time beside it as without it, whatever delays and
// noise there are.
func TestALateHostDoesNoHarm(t *testing.T) {
	const noHarm = 0.003
	delay := DrawnDelay{Message: Times{Mean: ms, Variation: 1}}
	for name, l := range map[string]late{
		"a little":      {punctual: 7, slow: 1, by: 3 * ms, rate: 4400},
		"much":          {punctual: 7, slow: 1, by: 8 * ms, rate: 4400},
		"hopelessly":    {punctual: 7, slow: 1, by: 30 * ms, rate: 4400},
		"beside noise":  {punctual: 7, slow: 1, by: 8 * ms, rate: 4000, options: Options{Noise: 0.1}},
		"beside delays": {punctual: 7, slow: 1, by: 8 * ms, rate: 3700, options: Options{Delay: delay}},
		"two of many":   {punctual: 30, slow: 2, by: 8 * ms, rate: 20000, options: Options{Noise: 0.05}},
	} {
		for _, policy := range []string{"adaptive", "deferred"} {
			l.options.Seed = 1
			beside := l.attains(t, policy)
			without := l
			without.slow = 0
			t.Logf("%s, %s: %.4f beside it, %.4f without it", name, policy, beside, without.attains(t, policy))
			assert.GreaterOrEqual(t, beside, without.attains(t, policy)-noHarm, "%s, %s", name, policy)
		}
	}
}
