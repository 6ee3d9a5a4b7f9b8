package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

func TestTrialIsTold(t *testing.T) {
	s := control.Status{Name: "p", Trial: &workflows.TrialStatus{
		Seen:  rollout.Seen{Generation: 2, Stable: rollout.Tally{Requests: 90, InTime: 90}, Canary: rollout.Tally{Requests: 10, InTime: 5}, Compared: 3, Different: 1},
		Since: time.Unix(1e9, 0).UTC(), Update: pipelines.Update{Canary: 0.1, Shadow: 0.2},
	}}
	text, err := json.Marshal(newServiceRow(s).Trial)
	require.NoError(t, err)
	require.JSONEq(t, `{"generation":2,"since":"2001-09-09T01:46:40Z","canary":0.1,"shadow":0.2,
		"tried":{"requests":10,"in_time":5,"attainment":0.5},"stable":{"requests":90,"in_time":90,"attainment":1},"compared":3,"different":1}`, string(text))
	require.Nil(t, newServiceRow(control.Status{Name: "p"}).Trial)

	var told strings.Builder
	require.NoError(t, writeStatuses(&told, []control.Status{s}))
	require.Contains(t, told.String(), "\np: tried since 01:46:40, answers 10 % of requests and is sent copies of 20 %: generation 2 attains 50 % of 10 requests, the one before 100 % of 90; 1 of 3 answers to the same requests differ\n")
}
