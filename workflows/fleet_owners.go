package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
)

// Which dispatcher decides for which service. Each service has one owner, by an epoch
// that grows with every change: gateways and executors obey the highest that they have
// seen, so that a change is safe before anyone is notified of it.

// dispatched is the name of a service that dispatchers decide for; false for functions,
// which gateways decide for themselves.
func dispatched(id string) (name string, ok bool) {
	kind, name, ok := strings.Cut(id, "/")
	return name, ok && kind != string(scheduler.KindFunction)
}

// checkOwn refuses a claim of a process that is no member of the fleet.
func (f *fleet) checkOwn(_ workflow.Context, c activities.OwnClaim) error {
	m := activities.Member{Kind: activities.KindDispatcher, Name: c.Name}
	if f.Members[memberKey(m)].Instance != c.Instance {
		return temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("workflows: dispatcher %q is not a member of the fleet, or another process has its name", c.Name), activities.TypeFenced, nil)
	}
	return nil
}

// own notes that a dispatcher has taken over services whose owner gateways have lost,
// unless another has a higher epoch. The lost owner gets nothing until it reports to be
// ready, by a claim without services, which has the services shared again.
func (f *fleet) own(ctx workflow.Context, c activities.OwnClaim) (activities.FleetView, error) {
	f.handled++
	key := memberKey(activities.Member{Kind: activities.KindDispatcher, Name: c.Name})
	if len(c.Claimed) == 0 {
		f.setReady(key, true)
		f.share(ctx)
	}
	for _, service := range workflow.DeterministicKeys(c.Claimed) {
		epoch := c.Claimed[service]
		if !f.serves(service) || f.Owners[service].Epoch >= epoch {
			continue
		}
		if o := f.Owners[service]; o.Instance != c.Instance {
			f.setReady(memberKey(activities.Member{Kind: activities.KindDispatcher, Name: o.Dispatcher}), false)
		}
		f.Epoch = max(f.Epoch, epoch)
		f.assign(service, f.Members[key], epoch)
	}
	if len(c.Claimed) > 0 {
		f.moved() // all are notified, those whose claim was too late with them
	}
	return f.view(), nil
}

func (f *fleet) setReady(key string, ready bool) {
	if m, ok := f.Members[key]; ok && m.Ready != ready {
		m.Ready = ready
		f.Members[key] = m
	}
}

// serves reports whether a dispatched service of the name is known.
func (f *fleet) serves(service string) bool {
	for _, id := range workflow.DeterministicKeys(f.Watching) {
		if name, ok := dispatched(id); ok && name == service {
			return true
		}
	}
	return false
}

// epochBits leaves room below the time for epochs that dispatchers claim by themselves.
const epochBits = 16

// give makes a dispatcher the owner of a service by a new epoch.
func (f *fleet) give(ctx workflow.Context, service string, m activities.Member) {
	f.Epoch = max(f.Epoch+1, uint64(workflow.Now(ctx).UnixMilli())<<epochBits)
	f.assign(service, m, f.Epoch)
}

func (f *fleet) assign(service string, m activities.Member, epoch uint64) {
	if f.Owners == nil {
		f.Owners = map[string]activities.Owner{}
	}
	f.Owners[service] = activities.Owner{Service: service, Dispatcher: m.Name, Instance: m.Instance, Epoch: epoch}
	f.moved()
}

func (f *fleet) moved() {
	f.Moves++
	f.owned = true
}

// share gives every service an owner that is there, and moves services from the dispatcher
// with most to that with fewest until they differ by at most one. A dispatcher that has
// just joined, to which gateways and executors are still coming, is given nothing for as
// long as there is another.
func (f *fleet) share(ctx workflow.Context) {
	var all, ready []activities.Member
	has := map[string][]string{} // services by instance
	for _, m := range f.view().Dispatchers() {
		all, has[m.Instance] = append(all, m), nil
		if m.Ready {
			ready = append(ready, m)
		}
	}
	settled := len(ready) > 0
	if !settled {
		ready = all
	}
	var homeless []string
	known := map[string]bool{}
	for _, id := range workflow.DeterministicKeys(f.Watching) {
		service, ok := dispatched(id)
		if !ok {
			continue
		}
		known[service] = true
		if o := f.Owners[service]; o.Epoch > 0 && here(all, o.Instance) {
			has[o.Instance] = append(has[o.Instance], service)
		} else {
			homeless = append(homeless, service)
		}
	}
	for _, service := range workflow.DeterministicKeys(f.Owners) {
		if !known[service] {
			delete(f.Owners, service)
			f.moved()
		}
	}
	if len(ready) == 0 {
		return
	}
	for _, service := range homeless {
		least, _ := extremes(ready, has)
		f.give(ctx, service, least)
		has[least.Instance] = append(has[least.Instance], service)
	}
	for settled {
		least, most := extremes(ready, has)
		from := has[most.Instance]
		if len(from) <= len(has[least.Instance])+1 {
			return
		}
		service := from[len(from)-1]
		has[most.Instance] = from[:len(from)-1]
		f.give(ctx, service, least)
		has[least.Instance] = append(has[least.Instance], service)
	}
}

func here(all []activities.Member, instance string) bool {
	for _, m := range all {
		if m.Instance == instance {
			return true
		}
	}
	return false
}

// extremes are the members that have the fewest and the most services.
func extremes(all []activities.Member, has map[string][]string) (least, most activities.Member) {
	least, most = all[0], all[0]
	for _, m := range all {
		if len(has[m.Instance]) < len(has[least.Instance]) {
			least = m
		}
		if len(has[m.Instance]) > len(has[most.Instance]) {
			most = m
		}
	}
	return least, most
}

// tellTime is how long a member may take to receive a notification.
const tellTime = 10 * time.Second

// tellDispatchers sends every dispatcher what it owns.
func (f *fleet) tellDispatchers(ctx workflow.Context) {
	view := f.view()
	for _, m := range view.Dispatchers() {
		in := activities.OwnInput{Moves: view.Moves, Owns: view.Owned(m), Ready: m.Ready}
		var d *activities.DispatcherActivities
		f.tell(ctx, m.Queue(), fmt.Sprintf("assign %s %d services", m.Name, len(in.Owns)), d.OwnServices, in)
	}
}

// tellGateways sends every gateway the present dispatchers.
func (f *fleet) tellGateways(ctx workflow.Context) {
	view := f.view()
	in := activities.DispatchersInput{Version: view.Version, Dispatchers: view.Dispatchers()}
	for _, m := range view.Gateways() {
		var g *activities.GatewayActivities
		f.tell(ctx, m.Queue(), fmt.Sprintf("send %s %d dispatchers", m.Name, len(in.Dispatchers)), g.UseDispatchers, in)
	}
}

// tell runs an activity on a member beside everything else. A member that cannot be reached
// now is notified with the next change.
func (f *fleet) tell(ctx workflow.Context, queue, summary string, activity, arg any) {
	f.telling++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { f.telling-- }()
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              queue,
			StartToCloseTimeout:    tellTime,
			ScheduleToStartTimeout: tellTime,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
			Summary:                summary,
		})
		if err := workflow.ExecuteActivity(ctx, activity, arg).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("a member was not notified", "what", summary, "error", err)
		}
	})
}
