package workflows

import (
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// askForHosts asks for hosts on behalf of a service, for want of which something failed, and
// returns why, with that, as an error of type TypeAwaits. Without wants it takes back what
// was asked for before.
func askForHosts(ctx workflow.Context, r activities.WantRequest, why error) error {
	var all []string
	for _, w := range r.Wants {
		all = append(all, quantity.Count(w.Hosts, "host")+" of "+w.Hardware)
	}
	text := strings.Join(all, " and ")
	summary := "ask for " + text
	if text == "" {
		summary = "ask for no hosts any more"
	}
	var fleet *activities.Fleet
	if err := workflow.ExecuteActivity(fleetOptions(ctx, summary), fleet.Want, r).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("the fleet was not asked for hosts", "error", err)
		return why
	}
	if text == "" {
		return why
	}
	return temporal.NewNonRetryableApplicationError(activities.Reason(why)+"; asked for "+text, activities.TypeAwaits, nil)
}
