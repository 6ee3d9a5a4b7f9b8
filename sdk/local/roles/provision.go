package roles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	made "github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/workflows/control"
)

// ProvisionOptions says where a control role runs workflows and what it has made: which hosts,
// and functions where.
type ProvisionOptions struct {
	Namespace    string   // of the client; empty means Temporal's default
	Allow        []string // HOST or HOST:PORT of providers that may be told to make functions; none allow all
	Provisioners []made.Provisioner
	Folder       string       // where the drivers remember what they have made
	Program      string       // that runs workers of this machine; empty means this one
	Progress     func(string) // is told in words what is done; may be nil
}

// enterEvery is the pace at which a provisioner that the fleet does not hold asks to be
// held: another control role may have been, and may be gone.
const enterEvery = 2 * time.Second

// provision makes hosts of one kind until life ends, while the fleet holds no other
// process that does.
func (r *Control) provision(life context.Context, c client.Client, p made.Provisioner, o ProvisionOptions) error {
	driver, err := p.Open(o.Folder, o.Program)
	if err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	commands := control.New(c, control.Options{})
	member := activities.Member{
		Kind: activities.KindProvisioner, Name: p.Hardware, Instance: rand.Text(),
		Offer: &activities.Offer{Hardware: p.Hardware, Devices: p.Devices, Max: p.Max},
	}
	held := &activities.Provisioner{
		Options: autoscale.HostOptions{Hardware: p.Hardware, Min: p.Min, Max: p.Max, Devices: p.Devices, Idle: p.Idle, Join: p.Join},
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
