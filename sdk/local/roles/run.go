package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
)

// RunControl runs the control role until ctx ends.
func RunControl(ctx context.Context, c client.Client, o ProvisionOptions) error {
	r, err := StartControl(ctx, c, o)
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Stop()
	return nil
}

// RunWorker runs a host until ctx ends, or the fleet has it leave. It then gives the fleet
// notice, and drains the executors that are left when that is over. The error says, too, when another process is
// in the fleet under the host's name.
func RunWorker(ctx context.Context, c client.Client, o HostOptions) error {
	r, err := StartWorker(ctx, c, o)
	if err != nil {
		return err
	}
	select {
	case <-r.asked: // by the fleet, which waits for as long as services need
		r.leave(ctx)
	case <-ctx.Done():
	case <-r.replaced:
		err = fmt.Errorf("another worker is in the fleet as %q; give each host a name of its own with --name", o.Name)
	}
	if err == nil && ctx.Err() != nil {
		notice, cancel := context.WithTimeout(context.Background(), o.Notice)
		r.leave(notice)
		cancel()
	}
	r.Stop()
	return err
}

// RunGateway runs a gateway until ctx ends. It then says that it is not ready, takes
// requests for the time of notice, and finishes those under way. started is told once
// it listens; it may be nil. The error says, too, when another process has joined the
// fleet under the gateway's name.
func RunGateway(ctx context.Context, c client.Client, o GatewayOptions, started func(*Gateway)) error {
	r, err := StartGateway(ctx, c, o)
	if err != nil {
		return err
	}
	if started != nil {
		started(r)
	}
	select {
	case <-ctx.Done():
	case <-r.replaced:
		err = fmt.Errorf("another gateway has joined the fleet as %q; give each a name of its own with --name", r.Member.Name)
	}
	r.Leave()
	time.Sleep(o.Notice)
	err = errors.Join(err, r.Stop())
	r.Close()
	return err
}
