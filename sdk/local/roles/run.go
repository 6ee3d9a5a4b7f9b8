package roles

import (
	"context"

	"go.temporal.io/sdk/client"
)

// RunControl runs the control role until ctx ends.
func RunControl(ctx context.Context, c client.Client) error {
	r, err := StartControl(ctx, c)
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Stop()
	return nil
}

// RunWorker runs a host until ctx ends, then drains its executors.
func RunWorker(ctx context.Context, c client.Client, o HostOptions) error {
	r, err := StartWorker(ctx, c, o)
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Stop()
	return nil
}

// RunGateway runs a gateway until ctx ends, then finishes the requests under
// way. started is told once it listens; it may be nil.
func RunGateway(ctx context.Context, c client.Client, o GatewayOptions, started func(*Gateway)) error {
	r, err := StartGateway(ctx, c, o)
	if err != nil {
		return err
	}
	if started != nil {
		started(r)
	}
	<-ctx.Done()
	err = r.Stop()
	r.Close()
	return err
}
