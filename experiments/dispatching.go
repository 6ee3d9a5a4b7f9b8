package experiments

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Names of metrics.
const (
	goodput      = "goodput"
	overDeferred = "goodput over deferred's"
	atThrice     = "in time at three times the goodput, as a share of it"
)

// deferred is Symphony's own policy, which the others are compared with, and
// adaptive the default.
const (
	deferred = "deferred"
	adaptive = "adaptive"
)

// dispatchPolicies are those that are measured: all of a shared pool, and the
// work-conserving one once more as Symphony's code has it, which drops by the
// windowPolicy; by itself it keeps the head of the line, which suits it better.
func dispatchPolicies() []string { return append(shared.Names(), "eager:window") }

// dispatchingFigures are those about shared pools.
func dispatchingFigures() []Figure {
	var list []Figure
	for _, p := range parts() {
		f := Figure{ID: "symphony/" + p.name, Title: p.title, Seconds: p.seconds,
			Layout: Layout{Down: []string{"setting"}, Across: []string{System}}, Run: p.run}
		if p.x != "" {
			f.Layout.Down = []string{p.x}
			f.Picture = &Picture{Metric: overDeferred, Panel: []string{"group"}, X: p.x, LogX: true,
				Footer: "Simulated pools; 99 % of the requests in time. Above 1: more requests from the same devices."}
		}
		list = append(list, f)
	}
	list = append(append(list, evaluationFigures()...), partitionFigure(), frontendsFigure())
	return append(list,
		Figure{ID: "symphony/table2", Title: "How uneven independent frontends make the load of a device (Symphony, table 2)", Seconds: 10,
			Layout: Layout{Down: []string{"rate", "window_ms", "frontends"}, Across: []string{Metric}}, Run: frontends},
		Figure{ID: "dispatching/together", Title: "Networks in one cluster beside the same on devices of their own", Seconds: 120,
			Layout:  Layout{Down: []string{"of_a_device_each", "networks"}, Across: []string{System, Metric}},
			Picture: &Picture{Metric: "over the cluster", Panel: []string{"of_a_device_each"}, X: "networks", LogX: true, Footer: "Planned; devices apart (policy exact) over those of the cluster, at 99 % of Poisson arrivals in time."}, Run: together},
		Figure{ID: "dispatching/waves", Title: "Square waves of load on a cluster that follows its own advice", Seconds: 60,
			Layout:  Layout{Down: []string{"low", "period_s", System}, Across: []string{Metric}},
			Picture: &Picture{Metric: "cost over the oracle's", Panel: []string{"low"}, X: "period_s", LogX: true, Footer: "Simulated; devices that serve or start, over those of somebody who knows the wave."}, Run: waves},
		Figure{ID: "dispatching/speed", Title: "Million requests per second of one core, simulator included", Seconds: 240,
			Layout: Layout{Down: []string{System, "models"}, Across: []string{"devices"}}, Run: speed})
}

// dispatchPart is a part of the evaluation, which makes a figure.
type dispatchPart struct {
	name, title string
	seconds     int
	x           string // what changes along a line of its picture; empty without one
}

func parts() []dispatchPart {
	return []dispatchPart{
		{partTable4, "Two networks on 8 devices, Poisson arrivals, ten seeds (Symphony, table 4)", 300, ""},
		{partNetworks, "Every network alone on 8 devices, Poisson arrivals (Symphony, tables 5 and 6)", 180, ""},
		{partMixed, "All networks together, Poisson arrivals", 60, ""},
		{partBursts, "From Poisson arrivals to bursts: gamma gaps", 150, "shape"},
		{partDevices, "From one device to a thousand: ResNet50, SLO 50 ms, Poisson arrivals", 90, "devices"},
		{partModels, "A rising number of models on 32 devices: ResNet50, SLO 50 ms, Poisson arrivals", 60, "models"},
		{partDrawn, "Other drawn settings, with a seed that nothing was fitted with", 150, ""},
	}
}

// one is what a policy did in a setting.
type one struct {
	setting  *DispatchSetting
	measured Measured
}

// run measures the settings of a part, each policy a piece of work.
func (p dispatchPart) run(ctx context.Context, e *Env) (Result, error) {
	list, effort, policies := e.settings(Of(p.name)), Full(), dispatchPolicies()
	if p.name == partTable4 {
		policies = append(policies, nexusEight, shepherd)
	}
	if e.Quick {
		list, effort = Part(e, list, (len(list)+1)/2), Quick()
	}
	var out Result
	all := make([]one, len(list)*len(policies))
	stop := func() bool { return ctx.Err() != nil }
	err := e.Each(ctx, p.title, len(all), func(i int) (err error) {
		all[i].setting = &list[i/len(policies)]
		all[i].measured, err = all[i].setting.Measure(policies[i%len(policies)], effort, stop)
		if errors.Is(err, simulate.ErrStopped) {
			return ctx.Err()
		}
		return err
	})
	if err != nil {
		return out, err
	}
	for i := range list {
		p.addTo(&out, &list[i], all[i*len(policies):(i+1)*len(policies)])
	}
	if p.name == partTable4 {
		if err := bounds(ctx, e, list, effort, &out); err != nil {
			return out, err
		}
	}
	note(&out, p.x)
	return out, nil
}

// addTo appends what the policies did in a setting.
func (p dispatchPart) addTo(out *Result, s *DispatchSetting, all []one) {
	at := Set("setting", s.Name)
	if p.x != "" {
		at = Set("group", s.Group, p.x, s.X)
	}
	under := 0.0
	if k := slices.IndexFunc(all, func(o one) bool { return o.measured.Policy == deferred }); k >= 0 {
		under = all[k].measured.Goodput
	}
	for _, o := range all {
		m := o.measured
		if m.Goodput == 0 {
			continue // none to speak of
		}
		out.AddPrinted(at, m.Policy, goodput, "1/s", m.Goodput, s.Printed[m.Policy])
		out.Add(at, m.Policy, overDeferred, "", m.Goodput/under)
		out.Add(at, m.Policy, atThrice, "", m.Overload)
	}
}

// bounds appends what table 4 compares goodputs with: devices that take turns,
// and what no dispatcher can exceed.
func bounds(ctx context.Context, e *Env, list []DispatchSetting, effort Effort, out *Result) error {
	physical := make([]float64, len(list))
	err := e.Each(ctx, "The physical limit", len(list), func(i int) (err error) {
		if list[i].Delay == (dispatch.Delay{}) {
			physical[i], err = list[i].Physical(effort)
		}
		return err
	})
	for i, s := range list {
		at := Set("setting", s.Name)
		_, inTurns := s.Models[0].Staggered(s.Devices)
		out.AddPrinted(at, "devices in turns", goodput, "1/s", inTurns, s.Printed["staggered"])
		if physical[i] > 0 {
			out.Add(at, "physical limit", goodput, "1/s", physical[i])
		}
	}
	return err
}

// note adds a line that compares adaptive with deferred.
func note(out *Result, x string) {
	least, most, sum, n, where := 0.0, 0.0, 0.0, 0.0, Setting(nil)
	for _, r := range out.Rows {
		if r.System != adaptive || r.Metric != overDeferred {
			continue
		}
		if n == 0 || r.Ours < least {
			least, where = r.Ours, r.Setting
		}
		most, sum, n = max(most, r.Ours), sum+r.Ours, n+1
	}
	if n == 0 {
		return
	}
	name := where.Text("setting")
	if x != "" {
		name = where.Text("group") + ", " + x + " " + where.Text(x)
	}
	out.Note("Adaptive over deferred: %.3f on average, at most %.3f, at least %.3f (%s).", sum/n, most, least, name)
}

func frontends(context.Context, *Env) (Result, error) {
	var out Result
	for _, u := range Frontends(1) {
		at := Set("rate", u.Rate, "window_ms", u.Window, "frontends", u.Frontends)
		out.Add(at, "round robin", "requests to a backend", "", u.Mean)
		out.AddPrinted(at, "round robin", "standard deviation", "", u.Deviation, u.Printed)
	}
	return out, nil
}

// Requests of a run that measures speed: enough for a steady state.
const (
	speedRequests = 1_000_000
	speedQuick    = 20_000
)

func speed(ctx context.Context, e *Env) (Result, error) {
	requests := float64(speedRequests)
	if e.Quick {
		requests = speedQuick
	}
	type place struct {
		policy          string
		models, devices int
		pace            Pace
	}
	var all []place
	for _, policy := range []string{adaptive, deferred} {
		for _, m := range Part(e, []int{1, 4, 16, 64, 256, 1024}, 3) {
			for _, n := range []int{1, 8, 64, 512, 1000, 4096} {
				all = append(all, place{policy: policy, models: m, devices: n})
			}
		}
	}
	var out Result
	err := e.Each(ctx, "Requests per second of one core", len(all), func(i int) (err error) {
		p := &all[i]
		p.pace, err = Speed(p.policy, p.models, p.devices, requests, e.Now)
		return err
	})
	for _, p := range all {
		out.Add(Set("models", p.models, "devices", p.devices), p.policy, "requests", "million/s", p.pace.Rate/1e6)
	}
	return out, err
}

// Uneven is what backends see when frontends share requests out without
// knowing of each other (Symphony, section 2.3 and table 2).
type Uneven struct {
	Window    float64
	Rate      float64
	Frontends int
	Mean      float64 // to one backend in a window
	Deviation float64
	Printed   float64 // by the paper
}

const (
	backends = 100
	windows  = 2000
)

// Frontends draws the four cases of the paper's table 2: Poisson arrivals that
// come to a random frontend each, which sends them to 100 backends by turns,
// beginning anywhere.
func Frontends(seed uint64) []Uneven {
	list := []Uneven{
		{Window: 400, Rate: 10000, Frontends: 1, Printed: 0.753},
		{Window: 400, Rate: 10000, Frontends: 25, Printed: 2.463},
		{Window: 200, Rate: 2000, Frontends: 1, Printed: 0.396},
		{Window: 200, Rate: 2000, Frontends: 25, Printed: 1.860},
	}
	for i := range list {
		list[i].draw(rand.New(rand.NewPCG(seed, uint64(i))))
	}
	return list
}

func (u *Uneven) draw(rng *rand.Rand) {
	next := make([]int, u.Frontends)
	for i := range next {
		next[i] = rng.IntN(backends)
	}
	var sum, squares float64
	at := 0.0
	for w := range windows {
		var got [backends]int
		for end := float64(w+1) * u.Window / 1000; ; {
			at += rng.ExpFloat64() / u.Rate
			f := rng.IntN(u.Frontends)
			got[next[f]]++
			next[f] = (next[f] + 1) % backends
			if at >= end {
				break
			}
		}
		for _, n := range got {
			sum, squares = sum+float64(n), squares+float64(n*n)
		}
	}
	n := float64(windows * backends)
	u.Mean = sum / n
	u.Deviation = math.Sqrt(squares/n - u.Mean*u.Mean)
}
