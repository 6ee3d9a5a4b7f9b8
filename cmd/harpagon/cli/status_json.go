package cli

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// serviceRow is one service in JSON, whatever its kind.
type serviceRow struct {
	Name       string        `json:"name"`
	Kind       string        `json:"kind"` // pipeline, pool or function
	Phase      string        `json:"phase"`
	Generation int           `json:"generation"` // that serves; while none does, the one that is requested
	Rate       float64       `json:"rate"`
	Policy     string        `json:"policy"`
	CostModel  string        `json:"cost_model,omitempty"`
	Cost       float64       `json:"cost"`
	Plan       any           `json:"plan"` // as plan --json prints it; null while nothing serves
	Asked      *askedRow     `json:"asked,omitempty"`
	Trial      *trialRow     `json:"trial,omitempty"`
	Failure    string        `json:"failure,omitempty"`
	Files      []fileRow     `json:"files,omitempty"`
	Decisions  []decisionRow `json:"decisions"` // oldest first
	Transfers  []transferRow `json:"transfers,omitempty"`
	Answered   []answeredRow `json:"answered,omitempty"`
}

// answeredRow is how many requests a combination of variants has answered.
type answeredRow struct {
	Variants string  `json:"variants"` // "classify=small, label=own"
	Requests float64 `json:"requests"`
	Share    float64 `json:"share"` // of all that were answered
}

// transferRow is how long the way to the executors of a host and back takes.
type transferRow struct {
	Host string      `json:"host"`
	P99  quantity.MS `json:"p99_ms"`
}

// fileRow is a file that a module runs with.
type fileRow struct {
	Module string `json:"module"`
	Path   string `json:"path"` // or address
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// askedRow is a change that is under way or could not be carried out.
type askedRow struct {
	Generation int     `json:"generation"`
	Rate       float64 `json:"rate,omitempty"`
	Reason     string  `json:"reason"`
}

type decisionRow struct {
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"`
	Failure    string    `json:"failure,omitempty"`
	FromCost   float64   `json:"from_cost"`
	ToCost     float64   `json:"to_cost"`
	FromRate   float64   `json:"from_rate"`
	ToRate     float64   `json:"to_rate"`
}

// fleetRow is who takes part.
type fleetRow struct {
	Gateways    []memberRow     `json:"gateways"`
	Dispatchers []dispatcherRow `json:"dispatchers"`
	Hosts       []hostRow       `json:"hosts"`
}

type hostRow struct {
	Name    string          `json:"name"`
	Leaving bool            `json:"leaving,omitempty"` // it is about to go
	Devices []hostDeviceRow `json:"devices"`
}

type hostDeviceRow struct {
	Name      string `json:"name"`
	Hardware  string `json:"hardware"`
	Executors int    `json:"executors"`
}

func newServiceRow(s control.Status) serviceRow {
	row := serviceRow{
		Name: s.Name, Kind: string(s.Kind), Phase: string(s.Phase), Generation: s.Generation, Rate: s.Rate, Cost: s.Cost,
		Policy: s.Policy, CostModel: s.CostModel,
		Asked: newAskedRow(s.Requested), Trial: newTrialRow(s.Trial), Failure: failureText(s.Failure), Decisions: []decisionRow{},
	}
	if s.Plan != nil {
		row.Plan = s.Plan.Planned()
	}
	for _, m := range s.Files {
		for _, f := range m.Files {
			row.Files = append(row.Files, fileRow{Module: m.Module, Path: f.Path, Digest: f.Digest, Size: f.Size})
		}
	}
	for _, one := range s.Answered.Shares() {
		row.Answered = append(row.Answered, answeredRow(one))
	}
	for _, h := range s.Transfers {
		row.Transfers = append(row.Transfers, transferRow{Host: h.Host, P99: quantity.MS(h.P99)})
	}
	for _, d := range s.Decisions {
		c := d.Change
		row.Decisions = append(row.Decisions, decisionRow{
			Generation: d.Generation, At: d.At, Reason: d.Reason, Failure: d.Failure,
			FromCost: c.FromCost, ToCost: c.ToCost, FromRate: c.FromRate, ToRate: c.ToRate,
		})
	}
	return row
}

func newAskedRow(a *workflows.PendingChange) *askedRow {
	if a == nil {
		return nil
	}
	return &askedRow{Generation: a.Generation, Rate: a.Rate, Reason: a.Cause}
}

func failureText(f *workflows.Failure) string {
	if f == nil {
		return ""
	}
	return f.Reason
}

// everythingRow is what status --json prints. Services is made to last; pipelines
// (pools and clusters among them) and functions have all that is known, as workflows keep it.
type everythingRow struct {
	Services  []serviceRow     `json:"services"`
	Pipelines []control.Status `json:"pipelines"`
	Functions []control.Status `json:"functions,omitempty"`
	Devices   []deviceRow      `json:"devices,omitempty"`
	Fleet     *fleetRow        `json:"fleet,omitempty"`

	Provisioners []autoscale.HostsStatus `json:"provisioners,omitempty"` // that make hosts
}

func newEverythingRow(all []control.Status, found []devices.Reading, view activities.FleetView, provisioners []autoscale.HostsStatus) everythingRow {
	e := everythingRow{Services: []serviceRow{}, Pipelines: []control.Status{}, Devices: deviceRows(found), Fleet: fleetOf(found, view), Provisioners: provisioners}
	for _, s := range all {
		e.Services = append(e.Services, newServiceRow(s))
		if s.Kind == pipelines.KindFunction {
			e.Functions = append(e.Functions, s)
		} else {
			e.Pipelines = append(e.Pipelines, s)
		}
	}
	return e
}

// memberRow is a gateway.
type memberRow struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// dispatcherRow is a dispatcher with what it decides for.
type dispatcherRow struct {
	Name    string   `json:"name"`
	Address string   `json:"address"`
	Epoch   uint64   `json:"epoch"` // the highest by which it owns something; 0 for nothing
	Owns    []string `json:"owns"`
}

func memberRows(all []activities.Member) []memberRow {
	rows := []memberRow{}
	for _, m := range all {
		rows = append(rows, memberRow{Name: m.Name, Address: m.Address})
	}
	return rows
}

func dispatcherRows(view activities.FleetView) []dispatcherRow {
	rows := []dispatcherRow{}
	for _, m := range view.Dispatchers() {
		row := dispatcherRow{Name: m.Name, Address: m.Address, Owns: []string{}}
		for service, epoch := range view.Owned(m) {
			row.Owns, row.Epoch = append(row.Owns, service), max(row.Epoch, epoch)
		}
		slices.Sort(row.Owns)
		rows = append(rows, row)
	}
	return rows
}

// fleetOf groups devices by host.
func fleetOf(all []devices.Reading, view activities.FleetView) *fleetRow {
	f := &fleetRow{
		Gateways: memberRows(view.Gateways()), Dispatchers: dispatcherRows(view), Hosts: []hostRow{},
	}
	for _, r := range all {
		at := slices.IndexFunc(f.Hosts, func(h hostRow) bool { return h.Name == r.Host })
		if at < 0 {
			at = len(f.Hosts)
			f.Hosts = append(f.Hosts, hostRow{Name: r.Host, Leaving: slices.Contains(view.Leaving(), r.Host)})
		}
		f.Hosts[at].Devices = append(f.Hosts[at].Devices, hostDeviceRow{Name: r.Device, Hardware: r.Hardware, Executors: r.Executors})
	}
	return f
}

// trialRow is a generation that is tried on a share of the requests.
type trialRow struct {
	Generation int       `json:"generation"`
	Since      time.Time `json:"since"`
	Canary     float64   `json:"canary"` // share of requests that it answers
	Shadow     float64   `json:"shadow"` // share that it is sent copies of
	Tried      tallyRow  `json:"tried"`
	Stable     tallyRow  `json:"stable"` // of what serves, meanwhile
	Compared   int64     `json:"compared"`
	Different  int64     `json:"different"`
}

// tallyRow counts requests that ended.
type tallyRow struct {
	Requests   int64   `json:"requests"`
	InTime     int64   `json:"in_time"`
	Attainment float64 `json:"attainment"`
}

func newTrialRow(t *workflows.TrialStatus) *trialRow {
	if t == nil {
		return nil
	}
	return &trialRow{
		Generation: t.Generation, Since: t.Since, Canary: t.Update.Canary, Shadow: t.Update.Shadow,
		Tried: newTallyRow(t.Seen.Canary), Stable: newTallyRow(t.Seen.Stable), Compared: t.Compared, Different: t.Different,
	}
}

func newTallyRow(t rollout.Tally) tallyRow {
	return tallyRow{Requests: t.Requests, InTime: t.InTime, Attainment: t.Attainment()}
}
