package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// TrialStatus tells of a trial that is under way.
type TrialStatus struct {
	rollout.Seen
	Since  time.Time
	Update pipelines.Update
}

// Describe is the trial in one line.
func (t TrialStatus) Describe() string {
	return fmt.Sprintf("tried since %s, %s: %s\n", t.Since.UTC().Format(time.TimeOnly), sharesText(t.Update), t.Seen.Describe())
}

// sharesText says which requests a generation gets while it is tried.
func sharesText(u pipelines.Update) string {
	var all []string
	if u.Canary > 0 {
		all = append(all, "answers "+quantity.Percent(u.Canary)+" of requests")
	}
	if u.Shadow > 0 {
		all = append(all, "is sent copies of "+quantity.Percent(u.Shadow))
	}
	return strings.Join(all, " and ")
}
