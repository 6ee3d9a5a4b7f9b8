package roles

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	made "github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// Control is the role that runs workflows.
type Control struct {
	worker  worker.Worker
	end     context.CancelFunc // of what runs beside it
	running sync.WaitGroup
}

// pollers are how many requests for work the role has open at the server, for tasks of
// workflows and for activities each. With the SDK's own two, tasks wait for a second behind
// each other and behind questions for the status when four services change at once.
const pollers = 16

// spins is after how long a workflow task without a pause counts as deadlocked. The SDK's
// own second passes on a busy machine, as when hundreds of services start at once, and
// updates and queries of the workflow then fail.
const spins = time.Minute

// StartControl starts the role, which also makes hosts where o has Provisioners. Several
// may run at once. Where workflows of an older program run it fails with a
// *control.OldError.
func StartControl(ctx context.Context, c client.Client, o ProvisionOptions) (*Control, error) {
	if err := control.New(c, control.Options{}).CheckOld(ctx); err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	w := worker.New(c, activities.ControlQueue, worker.Options{
		WorkerStopTimeout: 5 * time.Second, MaxConcurrentWorkflowTaskPollers: pollers, MaxConcurrentActivityTaskPollers: pollers,
		DeadlockDetectionTimeout: spins,
	})
	workflows.Register(w)
	activities.RegisterControl(w, &activities.Planning{Policies: o.Policies}, &activities.Fleet{Client: c}, &activities.Functions{Allow: o.Allow})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("roles: control: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	r := &Control{worker: w, end: end}
	r.running.Go(func() {
		keep(life, control.NewKeeper(control.New(c, control.Options{}), cmp.Or(o.Namespace, "default")))
	})
	for _, p := range o.Provisioners {
		if err := r.provision(life, c, p, o); err != nil {
			r.Stop()
			return nil, err
		}
	}
	return r, nil
}

// keepEvery is the pace at which a control role looks whether all runs that should.
const keepEvery = 2 * time.Second

// keep looks again and again, until life ends. What goes wrong is looked at again.
func keep(life context.Context, k *control.Keeper) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		_ = k.Look(ctx)
		cancel()
	}
}

// Stop ends the role after the tasks under way. Hosts that it has made go on.
func (r *Control) Stop() {
	r.end()
	r.running.Wait()
	r.worker.Stop()
}

// SearchAttributes lists what EnsureSearchAttributes registers.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	all := map[string]enumspb.IndexedValueType{}
	for _, a := range workflows.Attributes() {
		all[a.Name] = a.Type
	}
	return all
}

// EnsureSearchAttributes registers the search attributes of services in a
// namespace where they are missing. Not every client may; services then run
// without (Settings.SearchAttributes).
func EnsureSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	operator := c.OperatorService()
	have, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("roles: listing search attributes: %w", err)
	}
	missing := SearchAttributes()
	for name := range have.CustomAttributes {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) && !strings.Contains(err.Error(), "already exists") {
		return fmt.Errorf("roles: registering search attributes: %w", err)
	}
	return nil
}

// ProvisionOptions states where a control role runs workflows and what it has made: which hosts,
// and functions where.
type ProvisionOptions struct {
	Namespace    string             // of the client; empty means Temporal's default
	Allow        []string           // HOST or HOST:PORT of providers that may be called to make functions; none allow all
	Policies     scheduler.Policies // that the program brings to plan by, and to size plans by
	Provisioners []made.Provisioner
	Folder       string       // where the drivers remember what they have made
	Progress     func(string) // receives a line for each step; may be nil
}

// enterEvery is the pace at which a provisioner that the fleet does not hold tries to be
// held: the control role that was held may be gone.
const enterEvery = 2 * time.Second

// provision makes hosts of one kind until life ends, while the fleet holds no other
// process that does.
func (r *Control) provision(life context.Context, c client.Client, p made.Provisioner, o ProvisionOptions) error {
	driver, err := p.Open(o.Folder)
	if err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	commands := control.New(c, control.Options{})
	member := activities.Member{
		Kind: activities.KindProvisioner, Name: p.Hardware, Instance: rand.Text(),
		Offer: &activities.Offer{Hardware: p.Hardware, Devices: p.Devices, Max: p.Max},
	}
	most := p.Max
	if p.External {
		most = 0 // to be made here
	}
	held := &activities.Provisioner{
		Options: autoscale.HostOptions{Hardware: p.Hardware, Min: p.Min, Max: most, Devices: p.Devices, Idle: p.Idle, Join: p.Join},
		Driver:  driver, View: commands.Fleet, Progress: o.Progress, Pulse: activities.ClientPulse(c),
		Leave: func(ctx context.Context, host string) error {
			_, err := commands.Leave(ctx, host)
			return err
		},
	}
	w := worker.New(c, member.Queue(), activities.GatewayWorkerOptions())
	activities.RegisterProvisioner(w, held)
	if err := w.Start(); err != nil {
		return fmt.Errorf("roles: control: %w", err)
	}
	r.running.Go(func() {
		defer w.Stop()
		tick := time.NewTicker(enterEvery)
		defer tick.Stop()
		for told := ""; ; {
			if !held.Presence.Held() {
				ctx, cancel := context.WithTimeout(life, joinWithin)
				_, err := commands.Enter(ctx, member)
				cancel()
				if err != nil && told != err.Error() && life.Err() == nil && o.Progress != nil {
					told = err.Error()
					o.Progress(fmt.Sprintf("provisioner %s waits: %v", p.Hardware, errors.Unwrap(err)))
				}
			}
			select {
			case <-tick.C:
			case <-life.Done():
				return
			}
		}
	})
	return nil
}
