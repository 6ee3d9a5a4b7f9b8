package serving

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

func TestTrialInJSON(t *testing.T) {
	s := control.Status{Name: "p", Trial: &workflows.TrialStatus{
		Seen:  rollout.Seen{Generation: 2, Stable: rollout.Tally{Requests: 90, InTime: 90}, Canary: rollout.Tally{Requests: 10, InTime: 5}, Compared: 3, Different: 1},
		Since: time.Unix(1e9, 0).UTC(), Update: pipelines.Update{Canary: 0.1, Shadow: 0.2},
	}}
	text, err := json.Marshal(newServiceRow(s).Trial)
	require.NoError(t, err)
	require.JSONEq(t, `{"generation":2,"since":"2001-09-09T01:46:40Z","canary":0.1,"shadow":0.2,
		"tried":{"requests":10,"in_time":5,"attainment":0.5},"stable":{"requests":90,"in_time":90,"attainment":1},"compared":3,"different":1}`, string(text))
	require.Nil(t, newServiceRow(control.Status{Name: "p"}).Trial)
}
