package roles

import (
	"cmp"
	"context"
	"slices"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// services is the gateway of pipelines and pools and the server of functions as
// one activities.Gateway.
type services struct {
	*gateway.Gateway
	functions *serverless.Server
}

// Prepare waits until the deployment can be served.
func (s services) Prepare(ctx context.Context, d placement.Deployment) error {
	if d.Function != nil {
		return s.functions.Prepare(ctx, *d.Function)
	}
	return s.Gateway.Prepare(ctx, d)
}

// Install switches traffic to the deployment.
func (s services) Install(ctx context.Context, d placement.Deployment) error {
	if d.Function != nil {
		return s.functions.Install(ctx, *d.Function)
	}
	return s.Gateway.Install(ctx, d)
}

// Remove stops serving what has that name.
func (s services) Remove(ctx context.Context, service string) error {
	if s.functions.Serves(service) {
		return s.functions.Remove(ctx, service)
	}
	return s.Gateway.Remove(ctx, service)
}

// Services names what is installed, in order.
func (s services) Services() []string {
	names, _ := s.Gateway.Pipelines(context.Background()) // it reads a map and cannot fail
	return slices.SortedFunc(slices.Values(append(names, s.functions.Functions()...)), cmp.Compare[string])
}

// Measures tells what happened lately.
func (s services) Measures(service string) autoscale.Measures {
	if !s.functions.Serves(service) {
		return s.Gateway.Measures(service)
	}
	f := s.functions.Measures(service)
	m := autoscale.Measures{
		Pipeline: service, Kind: pipelines.KindFunction, Generation: f.Generation, From: f.From, To: f.To,
		Offered: f.Offered(), Attainment: 1 - f.Violations(), Function: &f,
	}
	return m
}
