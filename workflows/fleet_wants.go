package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// What services ask provisioners for. A want counts hosts beyond those that there are, so
// each that joins is taken off all wants for its hardware: who asked looks anew then, and
// says what is still missing.

// want notes what a service asks for.
func (f *fleet) want(_ workflow.Context, r activities.WantRequest) (activities.FleetView, error) {
	f.handled++
	wants := slices.Clone(r.Wants)
	for i := range wants {
		for _, name := range workflow.DeterministicKeys(f.Hosts) {
			if h := f.Hosts[name]; h.Incarnation > r.Version && !h.Info.Leaving && offers(h.Info, wants[i].Hardware) {
				wants[i].Hosts--
			}
		}
	}
	f.ask(r.Service, wants)
	return f.view(), nil
}

func (f *fleet) ask(service string, wants []activities.Want) {
	wants = slices.DeleteFunc(wants, func(w activities.Want) bool { return w.Hosts <= 0 })
	if len(wants) == 0 {
		delete(f.Wants, service)
		return
	}
	if f.Wants == nil {
		f.Wants = map[string][]activities.Want{}
	}
	f.Wants[service] = wants
}

// came takes a host that has joined off what services ask for.
func (f *fleet) came(info activities.HostInfo) {
	for _, service := range workflow.DeterministicKeys(f.Wants) {
		wants := slices.Clone(f.Wants[service])
		for i := range wants {
			if offers(info, wants[i].Hardware) {
				wants[i].Hosts--
			}
		}
		f.ask(service, wants)
	}
}

func offers(info activities.HostInfo, hardware string) bool {
	return slices.ContainsFunc(info.Devices, func(d placement.Device) bool { return d.Hardware == hardware })
}

// tellLeaving has hosts end that are about to leave: as soon as nothing runs there.
func (f *fleet) tellLeaving(ctx workflow.Context, names []string) {
	for _, name := range names {
		var host *activities.Host
		f.tell(ctx, activities.HostQueue(name), fmt.Sprintf("have %s leave when nothing runs there", name), host.Leave, name)
	}
}
