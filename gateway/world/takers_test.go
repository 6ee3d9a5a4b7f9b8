package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// taker is a process that takes the tasks of a queue, and does them by the activities that
// it has in production.
type taker struct {
	process *process
	life    context.Context
	gateway *activities.GatewayActivities
	host    *activities.Host
}

// register registers the activities, most of which their processes do.
func (t *temporalServer) register(e *environment) {
	e.RegisterActivity(&activities.Planning{})
	e.RegisterActivity(&activities.Fleet{Client: t})
	for name, f := range map[string]any{
		"Live": func(context.Context) error { <-t.world.life.Done(); return nil },
		"Prepare": there(t, func(ctx context.Context, p *taker, d placement.Deployment) error {
			t.world.learn(d)
			return p.gateway.Prepare(ctx, d)
		}),
		"Install": there(t, func(ctx context.Context, p *taker, d placement.Deployment) error { return p.gateway.Install(ctx, d) }),
		"Release": there(t, func(ctx context.Context, p *taker, in activities.ReleaseInput) error {
			return p.gateway.Release(ctx, in)
		}),
		"Remove": func(ctx context.Context, service string, since placement.Age) error {
			return there(t, func(ctx context.Context, p *taker, service string) error {
				return p.gateway.Remove(ctx, service, since)
			})(ctx, service)
		},
		"Announce": there(t, func(ctx context.Context, p *taker, service string) error { return p.gateway.Announce(ctx, service) }),
		"HoldMember": there(t, func(ctx context.Context, p *taker, m activities.Member) error {
			return p.gateway.HoldMember(ctx, m)
		}),
		"UseDispatchers": there(t, func(ctx context.Context, p *taker, in activities.DispatchersInput) error {
			return p.gateway.UseDispatchers(ctx, in)
		}),
		"HoldHost": there(t, func(ctx context.Context, p *taker, i activities.HostInfo) error { return p.host.HoldHost(ctx, i) }),
		"UseGateways": there(t, func(ctx context.Context, p *taker, in activities.GatewaysInput) error {
			return p.host.UseGateways(ctx, in)
		}),
		"Identify": answered(t, func(ctx context.Context, p *taker, in activities.IdentifyInput) (map[string]placement.ModuleEngine, error) {
			return p.host.Identify(ctx, in)
		}),
		"RunExecutor": answered(t, func(ctx context.Context, p *taker, task executors.Task) (activities.ExecutorResult, error) {
			return p.host.RunExecutor(ctx, task)
		}),
	} {
		e.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// there runs an activity on a process that takes the tasks of its queue.
func there[In any](t *temporalServer, do func(context.Context, *taker, In) error) func(context.Context, In) error {
	with := answered(t, func(ctx context.Context, p *taker, in In) (struct{}, error) { return struct{}{}, do(ctx, p, in) })
	return func(ctx context.Context, in In) error {
		_, err := with(ctx, in)
		return err
	}
}

// answered is there for activities with a result. A process that is killed meanwhile returns
// none.
func answered[In, Out any](t *temporalServer, do func(context.Context, *taker, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		i := activity.GetInfo(ctx)
		p := t.taken(ctx, i.TaskQueue)
		switch {
		case t.world.life.Err() != nil:
			return out, nil
		case p == nil:
			return out, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		work, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(p.life, stop)()
		out, err = do(work, p, in)
		t.world.history.note("%s by %s: %v", i.ActivityType.Name, p.process.name, err)
		switch {
		case t.wasCancelled(ctx): // it was cancelled meanwhile
			return out, activity.ErrResultPending
		case t.world.life.Err() != nil: // nothing is tried again
			return out, nil
		case p.life.Err() == nil:
			t.world.awaitControl(ctx)
			return out, err
		}
		if i.HeartbeatTimeout == 0 {
			return out, errors.New("its process was killed")
		}
		_ = osutil.SleepTimer(t.world.life, 2*i.HeartbeatTimeout) // the environment looks every half
		return out, nil                                           // which it does not take any more
	}
}

// taken waits until a process takes a task of the queue; nil where none does in time.
func (t *temporalServer) taken(ctx context.Context, queue string) *taker {
	patience := activities.DefaultHeartbeatTimeout
	until := time.Now().Add(patience)
	for ctx.Err() == nil && t.world.life.Err() == nil {
		t.world.awaitControl(ctx)
		t.mu.Lock()
		p := t.takers[queue]
		t.mu.Unlock()
		if p != nil && p.life.Err() == nil && p.process.alive() {
			_ = osutil.SleepTimer(p.life, time.Until(p.process.heldUntil()))
			return p
		}
		if time.Now().After(until) {
			return nil
		}
		_ = osutil.SleepTimer(ctx, 50*time.Millisecond)
	}
	return nil
}

func (t *temporalServer) take(queue string, p *taker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takers[queue] = p
}

// pulse is a heartbeat of an activity.
func (t *temporalServer) pulse(ctx context.Context, _ []byte, details any) error {
	if t.world.outage() > 0 {
		return errors.New("nobody answers")
	}
	activity.RecordHeartbeat(ctx, details)
	if t.wasCancelled(ctx) {
		return temporal.NewCanceledError()
	}
	return nil
}

// wasCancelled reports whether an activity was cancelled, or its workflow was.
func (t *temporalServer) wasCancelled(ctx context.Context) bool {
	i := activity.GetInfo(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over[string(i.TaskToken)] || t.over[i.WorkflowExecution.ID]
}

// stay keeps a process in the fleet.
func (t *temporalServer) stay(life context.Context, presence *activities.Presence, enter func(context.Context) error) {
	for life.Err() == nil {
		limit, stop := context.WithTimeout(life, 10*time.Second)
		err := enter(limit)
		stop()
		if err != nil {
			t.world.history.note("%v", err)
			_ = osutil.SleepTimer(life, 500*time.Millisecond)
			continue
		}
		for held := true; held && life.Err() == nil; held = presence.Held() {
			_ = osutil.SleepTimer(life, 2*time.Second)
		}
	}
}

// joinHost has a host that has started join the fleet.
func (t *temporalServer) joinHost(h *hostProcess, host *executors.Host, life context.Context) {
	a := &activities.Host{Name: h.name, Machine: "emulated", Executors: mortal{host, life}, Pulse: t.pulse, Gateways: host.Gateways.Set}
	t.take(activities.HostQueue(h.name), &taker{process: &h.process, life: life, host: a})
	info := activities.HostInfo{Name: h.name, Instance: fmt.Sprint(time.Since(t.world.began))}
	for i := range devices {
		info.Devices = append(info.Devices, placement.Device{Host: h.name, Name: fmt.Sprint("cpu/", i), Hardware: "cpu"})
	}
	t.world.ends.Go(func() {
		t.stay(life, &a.Presence, func(ctx context.Context) error {
			view, err := t.commands.Join(ctx, info)
			if err != nil {
				return err
			}
			return a.UseGateways(ctx, activities.GatewaysInput{Version: view.Version, Gateways: view.Attached()})
		})
	})
}

// devices are those of a host.
const devices = 12

// mortal is a host whose executors end when its process is killed.
type mortal struct {
	*executors.Host
	life context.Context
}

func (m mortal) RunExecutor(ctx context.Context, t executors.Task, o executors.Observer) error {
	ctx, stop := context.WithCancel(context.WithValue(ctx, named{}, t.Slot.Executor))
	defer stop()
	defer context.AfterFunc(m.life, stop)()
	return m.Host.RunExecutor(ctx, t, o)
}

// announced is a gateway as its process offers it to workflows. Callers use ready gateways
// only, so services need no announcement.
type announced struct{ *gateway.Gateway }

func (announced) Announce(string) {}

// joinGateway has a gateway that has started join the fleet, and returns when it serves
// what the fleet does.
func (t *temporalServer) joinGateway(life context.Context, g *gatewayProcess, own *gateway.Gateway) {
	a := &activities.GatewayActivities{Gateway: announced{own}, Pulse: t.pulse, Presence: &activities.Presence{}}
	m := activities.Member{Kind: activities.KindGateway, Name: g.name, Instance: fmt.Sprint(time.Since(t.world.began)), Address: g.name, Attach: g.name}
	t.take(m.Queue(), &taker{process: &g.process, life: life, gateway: a})
	t.world.ends.Go(func() {
		t.stay(life, a.Presence, func(ctx context.Context) error { _, err := t.commands.Enter(ctx, m); return err })
	})
	for _, s := range t.world.services {
		for d, ok := own.Deployment(s.name); (!ok || d.Generation == 0) && life.Err() == nil; d, ok = own.Deployment(s.name) {
			_ = osutil.SleepTimer(life, 20*time.Millisecond)
		}
	}
}
