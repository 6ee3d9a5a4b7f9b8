package metrics

import (
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/rollout"
)

func TestTrials(t *testing.T) {
	all := map[string]rollout.Seen{}
	m := New()
	m.Registry().MustRegister(Trials(func() map[string]rollout.Seen { return all }))
	samples := func() []string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return regexp.MustCompile(`(?m)^harpagon_trial_.*$`).FindAllString(w.Body.String(), -1)
	}
	require.Empty(t, samples(), "nothing is tried")
	all["traffic"] = rollout.Seen{Generation: 7, Stable: rollout.Tally{Requests: 900, InTime: 891}, Canary: rollout.Tally{Requests: 100, InTime: 50}, Compared: 20, Different: 3}
	require.Equal(t, []string{
		`harpagon_trial_attainment_ratio{of="serving",pipeline="traffic"} 0.99`,
		`harpagon_trial_attainment_ratio{of="tried",pipeline="traffic"} 0.5`,
		`harpagon_trial_compared{pipeline="traffic"} 20`,
		`harpagon_trial_different{pipeline="traffic"} 3`,
		`harpagon_trial_generation{pipeline="traffic"} 7`,
		`harpagon_trial_requests{of="serving",pipeline="traffic"} 900`,
		`harpagon_trial_requests{of="tried",pipeline="traffic"} 100`,
	}, samples())
}
