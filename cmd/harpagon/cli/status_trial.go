package cli

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
)

// trialRow is a generation that is tried on a share of the requests.
type trialRow struct {
	Generation int       `json:"generation"`
	Since      time.Time `json:"since"`
	Canary     float64   `json:"canary"` // share of requests that it answers
	Shadow     float64   `json:"shadow"` // share that it is sent copies of
	Tried      tallyRow  `json:"tried"`
	Stable     tallyRow  `json:"stable"` // of what serves, meanwhile
	Compared   int64     `json:"compared"`
	Different  int64     `json:"different"`
}

// tallyRow counts requests that ended.
type tallyRow struct {
	Requests   int64   `json:"requests"`
	InTime     int64   `json:"in_time"`
	Attainment float64 `json:"attainment"`
}

func newTrialRow(t *workflows.TrialStatus) *trialRow {
	if t == nil {
		return nil
	}
	return &trialRow{t.Generation, t.Since, t.Update.Canary, t.Update.Shadow, newTallyRow(t.Seen.Canary), newTallyRow(t.Seen.Stable), t.Compared, t.Different}
}

func newTallyRow(t rollout.Tally) tallyRow { return tallyRow{t.Requests, t.InTime, t.Attainment()} }
