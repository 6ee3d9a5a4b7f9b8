package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// TypeProfile is the workflow type.
const TypeProfile = "profile"

// profileID is the workflow profileID of the n-th attempt of a service, or of a cluster's
// placement.Resident, to have its modules measured.
func profileID(service string, n int) string { return fmt.Sprintf("profile/%s/%d", service, n) }

// ProfileRequest is its input.
type ProfileRequest struct {
	Service  string // profileID of its workflow
	Pipeline pipelines.Pipeline
	Hardware []pipelines.Hardware
	Again    bool `json:",omitempty"` // measure what hosts keep, too
}

// ProfileReply is its result: the points of every module that had none.
type ProfileReply struct {
	Points map[string][]pipelines.Point
}

// measurement is one module on one kind of hardware.
type measurement struct {
	module string
	device placement.Device
}

// Profile measures every module that has no profile, on every kind of hardware
// that may run it and that the fleet has. Modules on the same kind are
// measured one after the other, so that they do not disturb each other; kinds
// side by side.
func Profile(ctx workflow.Context, in ProfileRequest) (reply ProfileReply, err error) {
	defer func() { err = activities.Failed(err, ctx.Err() != nil) }()
	reply = ProfileReply{Points: map[string][]pipelines.Point{}}
	todo := lackingProfile(in.Pipeline)
	if len(todo) == 0 {
		return reply, nil
	}
	var about *activities.Fleet
	var view activities.FleetView
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "look which devices exist"), about.Watch, in.Service).Get(ctx, &view); err != nil {
		return reply, err
	}
	kinds, err := measurements(in.Hardware, todo, view.Devices())
	if err != nil {
		return reply, ask(ctx, in, todo, view, err)
	}
	release := holdWhileMeasuring(ctx, in.Service, view, kinds)
	results := workflow.NewBufferedChannel(ctx, len(kinds))
	for _, kind := range kinds {
		workflow.Go(ctx, func(ctx workflow.Context) {
			results.Send(ctx, measure(ctx, in, kind, reply.Points))
		})
	}
	for range kinds {
		var failed error
		results.Receive(ctx, &failed)
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		release()
	}
	for _, module := range workflow.DeterministicKeys(reply.Points) {
		slices.SortStableFunc(reply.Points[module], byConfiguration)
	}
	return reply, err
}

// lackingProfile are the modules of a pipeline without a profile.
func lackingProfile(p pipelines.Pipeline) []pipelines.Module {
	var all []pipelines.Module
	for _, m := range p.Modules {
		if len(m.Profile.Points) == 0 {
			all = append(all, m)
		}
	}
	return all
}

// measurements lists what to measure, by kind of hardware.
func measurements(hardware []pipelines.Hardware, modules []pipelines.Module, devices []placement.Device) ([][]measurement, error) {
	var kinds [][]measurement
	measured := map[string]bool{}
	for _, h := range hardware {
		i := slices.IndexFunc(devices, func(d placement.Device) bool { return d.Hardware == h.Name })
		if i < 0 {
			continue
		}
		var kind []measurement
		for _, m := range modules {
			if len(m.Hardware) == 0 || slices.Contains(m.Hardware, h.Name) {
				kind = append(kind, measurement{m.Name, devices[i]})
				measured[m.Name] = true
			}
		}
		if len(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	for _, m := range modules {
		if !measured[m.Name] {
			return nil, temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"workflows: module %q has no profile and no host has a device to measure it on: it wants hardware %s, and the hosts offer %s; start a worker with such hardware, declare the hardware that is there, or give the module a profile",
				m.Name, wantedKinds(m, hardware), offeredKinds(devices)), activities.TypeMisfit, nil)
		}
	}
	return kinds, nil
}

// wantedKinds names the kinds of hardware that may run a module.
func wantedKinds(m pipelines.Module, hardware []pipelines.Hardware) string {
	names := m.Hardware
	if len(names) == 0 {
		for _, h := range hardware {
			names = append(names, h.Name)
		}
	}
	return strings.Join(names, " or ")
}

// offeredKinds names the kinds of the devices, with how many there are of each.
func offeredKinds(devices []placement.Device) string {
	counts := map[string]int{}
	for _, d := range devices {
		counts[d.Hardware]++
	}
	var kinds []string
	for _, kind := range workflow.DeterministicKeys(counts) {
		kinds = append(kinds, fmt.Sprintf("%s (%d)", kind, counts[kind]))
	}
	return cmp.Or(strings.Join(kinds, ", "), "none")
}

// holdWhileMeasuring reserves the devices that are measured on for a service that has none yet, where
// their hosts would be ended if nobody used them. What the service reserves next takes the
// place of that; release gives them back.
func holdWhileMeasuring(ctx workflow.Context, service string, view activities.FleetView, kinds [][]measurement) (release func()) {
	var slots []placement.Slot
	for _, kind := range kinds {
		if d := kind[0].device; view.Provisioned(d.Host) {
			slots = append(slots, placement.Slot{Executor: "measured on " + d.Host, Module: kind[0].module, Hardware: d.Hardware, Host: d.Host, Device: d.Name})
		}
	}
	if len(slots) == 0 || len(view.Reserved[service]) > 0 {
		return func() {}
	}
	var about *activities.Fleet
	reserve := func(ctx workflow.Context, summary string, slots []placement.Slot) {
		r := activities.Reservation{Service: service, Slots: slots}
		if err := workflow.ExecuteActivity(fleetOptions(ctx, summary), about.Reserve, r).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("devices to measure on", "what", summary, "error", err)
		}
	}
	reserve(ctx, "keep what is measured on", slots)
	return func() {
		ctx, _ := workflow.NewDisconnectedContext(ctx)
		reserve(ctx, "give back what was measured on", nil)
	}
}

// ask requests a host of each kind that a module without any could be measured on.
func ask(ctx workflow.Context, in ProfileRequest, todo []pipelines.Module, view activities.FleetView, err error) error {
	r := activities.WantRequest{Service: in.Service, Version: view.Version}
	there := view.Devices()
	offers := view.Offers()
	for _, m := range todo {
		able := func(kind string) bool { return len(m.Hardware) == 0 || slices.Contains(m.Hardware, kind) }
		if slices.ContainsFunc(in.Hardware, func(h pipelines.Hardware) bool {
			return able(h.Name) && (slices.ContainsFunc(there, func(d placement.Device) bool { return d.Hardware == h.Name }) ||
				slices.Contains(r.Wants, activities.Want{Hardware: h.Name, Hosts: 1}))
		}) {
			continue
		}
		for _, h := range in.Hardware {
			if able(h.Name) && slices.ContainsFunc(offers, func(o scheduler.Offer) bool { return o.Hardware == h.Name }) {
				r.Wants = append(r.Wants, activities.Want{Hardware: h.Name, Hosts: 1})
				break
			}
		}
	}
	if len(r.Wants) == 0 {
		return err
	}
	return askForHosts(ctx, r, err)
}

func measure(ctx workflow.Context, r ProfileRequest, todo []measurement, points map[string][]pipelines.Point) error {
	var host *activities.Host
	for _, m := range todo {
		ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              activities.HostQueue(m.device.Host),
			StartToCloseTimeout:    time.Hour,
			ScheduleToStartTimeout: HostPatience,
			HeartbeatTimeout:       time.Minute,
			WaitForCancellation:    true,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 4},
			Summary:                fmt.Sprintf("profile %s on %s of %s", m.module, m.device.Hardware, m.device.Host),
		})
		in := activities.ProfileInput{Pipeline: r.Pipeline, Module: m.module, Hardware: m.device.Hardware, Device: m.device.Name, Cores: m.device.Cores, Again: r.Again}
		var result activities.ProfileResult
		if err := workflow.ExecuteActivity(ctx, host.ProfileModule, in).Get(ctx, &result); err != nil {
			return err
		}
		points[m.module] = append(points[m.module], result.Points...)
	}
	return nil
}

func byConfiguration(a, b pipelines.Point) int {
	return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Batch, b.Batch))
}
