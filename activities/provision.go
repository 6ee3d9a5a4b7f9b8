package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	made "github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// ViewFleet is the fleet as it is; an empty one when nobody has ever joined.
func ViewFleet(ctx context.Context, c client.Client) (view FleetView, err error) {
	value, err := c.QueryWorkflow(ctx, FleetID, "", FleetDevices)
	if err == nil {
		err = value.Get(&view)
	}
	if errors.As(err, new(*serviceerror.NotFound)) {
		return view, nil
	}
	return view, err
}

// Provisioner is the set of activities of a control role that makes hosts of one kind. It
// acts for as long as the fleet holds it, so that of several control roles one does.
type Provisioner struct {
	Options  autoscale.HostOptions
	Driver   made.Driver
	View     func(context.Context) (FleetView, error)
	Leave    func(ctx context.Context, host string) error // has the fleet have a host leave
	Progress func(string)                                 // receives a line for each step

	Pulse    Pulse
	Presence Presence

	mu     sync.Mutex
	status autoscale.HostsStatus
}

// ProvisionerBeat is the details of a provisioner's heartbeat.
type ProvisionerBeat struct {
	Present string // for how long
	Status  autoscale.HostsStatus
}

// provisionEvery is the pace at which a provisioner looks at the fleet.
const provisionEvery = 500 * time.Millisecond

// HoldMember makes and ends hosts for as long as it heartbeats.
func (p *Provisioner) HoldMember(ctx context.Context, m Member) error {
	began := time.Now()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var loop sync.WaitGroup
	loop.Go(func() { p.run(life, m) })
	defer loop.Wait()
	defer end()
	return p.Presence.hold(ctx, newLease(ctx, p.Pulse, func() any {
		p.mu.Lock()
		defer p.mu.Unlock()
		return ProvisionerBeat{present(began), p.status}
	}))
}

// ended is an action that is over.
type ended struct {
	autoscale.HostAction
	err error
}

// run looks at the fleet and does what is decided, until life ends. What is under way then
// is broken off; the next one finds it on file.
func (p *Provisioner) run(life context.Context, m Member) {
	h := autoscale.NewHosts(p.Options)
	over := make(chan ended)
	var under sync.WaitGroup
	defer under.Wait()
	tick := time.NewTicker(provisionEvery)
	defer tick.Stop()
	for {
		for _, a := range p.look(life, h, m) {
			p.say("%s host %s", a.What, a.Host)
			under.Go(func() {
				err := p.do(life, a)
				select {
				case over <- ended{a, err}:
				case <-life.Done():
				}
			})
		}
		select {
		case <-tick.C:
		case e := <-over:
			if e.err != nil {
				p.say("%s host %s: %v", e.What, e.Host, e.err)
			}
			h.Done(time.Now(), e.HostAction, e.err)
		case <-life.Done():
			return
		}
	}
}

func (p *Provisioner) say(format string, args ...any) {
	if p.Progress != nil {
		p.Progress(fmt.Sprintf("provisioner "+p.Options.Hardware+": "+format, args...))
	}
}

// look decides by what there is now. Where that is not known, or the fleet holds another
// process under the name, nothing is begun.
func (p *Provisioner) look(life context.Context, h *autoscale.Hosts, m Member) []autoscale.HostAction {
	view, err := p.View(life)
	if err != nil || !view.holds(m) {
		return nil
	}
	all, err := p.Driver.List()
	var todo []autoscale.HostAction
	seen, now := view.seen(p.Options.Hardware, all), time.Now()
	if err == nil {
		todo = h.Observe(now, seen)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status = h.Status(now, seen); err != nil {
		p.status.Problem, p.status.Waits = err.Error(), "nothing is made or ended until that is mended"
	}
	return todo
}

func (p *Provisioner) do(life context.Context, a autoscale.HostAction) error {
	switch a.What {
	case autoscale.Create:
		return p.Driver.Create(life, a.Host)
	case autoscale.Drain:
		return p.Leave(life, a.Host)
	default:
		return p.Driver.Delete(life, a.Host)
	}
}

// holds reports whether the process is the fleet's member of that name.
func (v FleetView) holds(m Member) bool {
	for _, other := range OfKind(v.Members, m.Kind) {
		if other.Name == m.Name {
			return other.Instance == m.Instance
		}
	}
	return false
}

// seen are the hosts with a kind of hardware, and those that were made to have it.
func (v FleetView) seen(hardware string, all []made.HostRecord) autoscale.HostsSeen {
	s := autoscale.HostsSeen{Wanted: v.Wanted(hardware)}
	at := map[string]int{}
	host := func(name string) *autoscale.Host {
		i, known := at[name]
		if !known {
			i = len(s.Hosts)
			at[name] = i
			s.Hosts = append(s.Hosts, autoscale.Host{Name: name})
		}
		return &s.Hosts[i]
	}
	for _, one := range all {
		h := host(one.Name)
		h.Made, h.Since, h.Ended, h.Going = true, one.Since, one.Ended, one.Going
	}
	for _, there := range v.Hosts {
		_, made := at[there.Name]
		for _, d := range there.Devices {
			if d.Hardware == hardware || made {
				h := host(there.Name)
				h.Present, h.Leaving = true, there.Leaving
				if d.Hardware == hardware {
					h.Devices++
				}
				if v.used(d) {
					h.Used++
				}
			}
		}
	}
	return s
}

// used reports whether a service has reserved the device.
func (v FleetView) used(d placement.Device) bool {
	for _, slots := range v.Reserved {
		for i := range slots {
			if slots[i].Host == d.Host && slots[i].Device == d.Name {
				return true
			}
		}
	}
	return false
}

// Functions are the activities that create and delete functions at providers.
type Functions struct {
	// Provisioner makes the client of a provider; nil means over HTTP.
	Provisioner func(p *pipelines.Provider) (serverless.Provisioner, error)

	// Allow are HOST or HOST:PORT of providers that may be called; none allow all.
	Allow []string
}

// ManageInput is the input of ManageFunctions.
type ManageInput struct {
	Provider pipelines.Provider
	Function string
	Want     []functions.Managed // all that there shall be of it
}

// ManageFunctions brings a provider to what is wanted of one function, and reports what it
// did. It may be repeated. A provider that refuses fails it with type TypeNotReady, so
// that nothing changes for requests and the change is tried again later.
func (f *Functions) ManageFunctions(ctx context.Context, in ManageInput) (functions.Managing, error) {
	defer beat(ctx, nothing)()
	how := f.Provisioner
	if how == nil {
		how = func(p *pipelines.Provider) (serverless.Provisioner, error) {
			return serverless.NewHook(p, serverless.HookOptions{Allow: f.Allow})
		}
	}
	p, err := how(&in.Provider)
	var done functions.Managing
	if err == nil {
		done, err = serverless.Ensure(ctx, p, in.Function, in.Want)
	}
	switch {
	case errors.Is(err, serverless.ErrRefused):
		return done, temporal.NewNonRetryableApplicationError(err.Error(), TypeNotReady, nil)
	case err != nil && ctx.Err() == nil:
		return done, temporal.NewApplicationError(err.Error(), TypeNotReady)
	}
	return done, err
}
