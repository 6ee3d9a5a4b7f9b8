package roles

import (
	"context"

	"github.com/harpagon/harpagon/gateway/console"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// console is the page of this gateway: plans from Temporal, measures from here.
func (r *Gateway) console(life context.Context, o GatewayOptions, commands *control.Control) *console.Console {
	return console.New(life, console.Options{
		Version: o.Version, UI: o.UI, Namespace: o.Namespace, Callers: o.Credentials.Guard().For(secure.Read),
		Source: console.Source{
			Services: func(ctx context.Context) ([]workflows.Status, error) { return commands.Statuses(ctx) },
			Devices:  commands.Devices,
			Measures: func() (all []autoscale.Measures) {
				for _, name := range r.Gateway.Services() {
					all = append(all, r.Gateway.Measures(name))
				}
				return all
			},
			Pipeline: func(name string) (pipelines.Pipeline, bool) {
				d, ok := r.Gateway.Deployment(name)
				return d.Pipeline, ok
			},
		},
	})
}

// deployments are what the gateway serves.
func (r *Gateway) deployments() (all []placement.Deployment) {
	for _, name := range r.Gateway.Services() {
		if d, ok := r.Gateway.Deployment(name); ok {
			all = append(all, d)
		}
	}
	return all
}
