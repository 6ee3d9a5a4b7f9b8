package experiments

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// windowPolicy is the work-conserving policy as Symphony's code has it.
const windowPolicy = "eager:window"

// evaluationFigures are those of Symphony's evaluation that measure more than
// goodputs, or other settings than its tables.
func evaluationFigures() []Figure {
	down := func(names ...string) Layout {
		return Layout{Down: names, Across: []string{System}}
	}
	return []Figure{
		{ID: "symphony/figure4", Title: "Holding batches back over starting them at once (Symphony, figure 4)", Seconds: 1200,
			Layout: Layout{Down: []string{"part", "setting"}, Across: []string{System, Metric}}, Run: holdingBack},
		{ID: "symphony/figure6", Title: "All networks together on 64 devices, by how much batching gains (Symphony, figure 6)", Seconds: 600,
			Layout: down("hardware", "networks"), Run: zoo},
		{ID: "symphony/figure8", Title: "Sizes of batches and times in queues at the goodput, 8 devices (Symphony, figures 8 and 9)", Seconds: 60,
			Layout: Layout{Down: []string{"network", System}, Across: []string{Metric}}, Run: batchesAndQueues},
		{ID: "symphony/figure10", Title: "Goodput and busy devices over offered load: 10 ResNet50, SLO 100 ms, 24 devices (Symphony, figure 10)", Seconds: 60,
			Layout:  down("offered"),
			Picture: &Picture{Metric: "goodput", X: "offered", Footer: "Simulated; offered load in goodputs of deferred. Flat beyond 1: overload costs nothing."},
			Run:     flatTop},
		{ID: "symphony/figure13", Title: "Goodput over the delay of the network: 20 ResNet50, 32 devices (Symphony, figure 13)", Seconds: 300,
			Layout:  Layout{Down: []string{"delay_us"}, Across: []string{"slo_ms", System}},
			Picture: &Picture{Metric: "goodput without delay", Panel: []string{"slo_ms"}, X: "delay_us", Footer: "Simulated; goodput as a share of that without delay."},
			Run:     networkDelay},
		{ID: "symphony/figure14", Title: "A changing workload of 24 networks on up to 512 devices, with rates of our own (Symphony, figure 14)", Seconds: 240,
			Layout:  Layout{Down: []string{"minute"}, Across: []string{Metric}},
			Picture: &Picture{Metric: "devices", X: "minute", Footer: "Simulated; devices that serve or start, by the cluster's own advice."},
			Run:     changing},
	}
}

// Settings of the evaluation (sections 4.3, 5.1, 5.3 and 5.5).
const (
	zooDevices     = 64
	strongBatching = 2 // fixed part over that of a request, from which on batching gains much
	stableModels   = 10
	stableDevices  = 24
	stableSLO      = 100.0
	delayModels    = 20
	delayDevices   = 32
)

// goodputs measures the policies in every setting.
func goodputs(ctx context.Context, e *Env, title string, list []DispatchSetting, policies []string) ([][]Measured, error) {
	effort := Full()
	if e.Quick {
		effort = Quick()
	}
	list = e.settings(list)
	all := make([][]Measured, len(list))
	for i := range all {
		all[i] = make([]Measured, len(policies))
	}
	stop := func() bool { return ctx.Err() != nil }
	err := e.Each(ctx, title, len(list)*len(policies), func(i int) (err error) {
		at := &all[i/len(policies)][i%len(policies)]
		*at, err = list[i/len(policies)].Measure(policies[i%len(policies)], effort, stop)
		if errors.Is(err, simulate.ErrStopped) {
			return ctx.Err()
		}
		return err
	})
	return all, err
}

// zoo compares the policies on all networks of a kind of device, on those that batching
// helps much and on the others.
func zoo(ctx context.Context, e *Env) (out Result, err error) {
	// The text's factors of Symphony over the better of the two systems; its "2x to 2.4x"
	// for all networks names no device.
	printed := map[string]float64{"1080 Ti, strong": 3.5, "A100, strong": 5.7, "1080 Ti, weak": 1.23, "A100, weak": 1.10}
	var list []DispatchSetting
	for _, hardware := range []string{"1080 Ti", "A100"} {
		networks := gtx1080Ti()
		if hardware == "A100" {
			networks = a100()
		}
		for _, kind := range []string{"all", "strong", "weak"} {
			some := slices.DeleteFunc(slices.Clone(networks), func(n Network) bool {
				return kind == "strong" && n.Fixed <= strongBatching*n.Each || kind == "weak" && n.Fixed > strongBatching*n.Each
			})
			list = append(list, DispatchSetting{Group: hardware, Name: kind, Models: some, Devices: zooDevices, Shape: 1})
		}
	}
	if e.Quick {
		list = slices.DeleteFunc(list, func(s DispatchSetting) bool { return s.Name == "all" })
	}
	policies := append(dispatchPolicies(), nexusEight, shepherd)
	all, err := goodputs(ctx, e, "Zoo of networks", list, policies)
	if err != nil {
		return out, err
	}
	for i, s := range list {
		at := Set("hardware", s.Group, "networks", fmt.Sprintf("%s (%d)", s.Name, len(s.Models)))
		baseline, alone := 0.0, 0.0
		for k, policy := range policies {
			reached := all[i][k].Goodput
			out.Add(at, policy, goodput, "1/s", reached)
			if policy == "nexus" || policy == clockwork {
				baseline = max(baseline, reached)
			}
			if policy == "nexus" {
				alone = reached
			}
			if policy == nexusEight && reached > 0 {
				out.AddWithin(at, policy, "over nexus with one frontend", "", reached/alone, 0.55, 0.89)
			}
		}
		for k, policy := range policies {
			gain, what := all[i][k].Goodput/baseline, "over the better of clockwork and nexus"
			switch {
			case policy == deferred && s.Name == "all":
				out.AddWithin(at, policy, what, "", gain, 2, 2.4)
			case policy == deferred:
				out.AddPrinted(at, policy, what, "", gain, printed[s.Group+", "+s.Name])
			case policy == adaptive:
				out.Add(at, policy, what, "", gain)
			}
		}
	}
	out.Note("Batching gains much (strong) where a batch takes more than twice as long for itself as for each request. The paper says 2 to 2.4 for all networks.")
	return out, nil
}

// holdingBack compares deferred and adaptive with the work-conserving policy, as
// Symphony's code drops and as suits it better.
func holdingBack(ctx context.Context, e *Env) (out Result, err error) {
	each, policies := 2.0, []string{deferred, adaptive, windowPolicy, "eager"}
	if e.Holds(fourEach) {
		each = 4
	}
	list := microbenchmark(e.Quick, each)
	all, err := goodputs(ctx, e, "Holding back", list, policies)
	if err != nil {
		return out, err
	}
	var gains []float64
	for i, s := range list {
		at := Set("part", s.Group, "setting", s.Name)
		for k, policy := range policies[:2] {
			for over := 2; over < len(policies); over++ {
				under, what := all[i][over].Goodput, "over "+policies[over]
				switch gain := all[i][k].Goodput / under; {
				case under == 0 || gain == 0:
				case policy == deferred && over == 2 && s.Group == "a":
					out.AddWithin(at, policy, what, "", gain, 1.34, 1.89)
				case policy == deferred && over == 2 && s.Group == "b" && s.Models[0].SLO == 30:
					out.AddWithin(at, policy, what, "", gain, 1.14, 2.52)
				default:
					out.Add(at, policy, what, "", gain)
				}
			}
		}
		if under := all[i][2].Goodput; s.Group == "d" && under > 0 {
			gains = append(gains, all[i][0].Goodput/under)
		}
	}
	share := func(least float64) float64 {
		n := 0
		for _, g := range gains {
			if g > least {
				n++
			}
		}
		return 100 * float64(n) / float64(max(1, len(gains)))
	}
	out.Note("Of %d drawn cases of part d, where the work-conserving policy drops by the window, deferred is above 0.95 of it in %.0f %%, above 1.5 in %.0f %% (the paper: nearly all, more than 10 %%) and at most at %.3g times.", len(gains), share(0.95), share(1.5), slices.Max(append(gains, 0)))
	out.Note("Parts a to c have %g devices for each network.", each)
	out.Note("The paper's gains for the mixture are 34 to 89 %%, for DenseNet121 at 30 ms 14 to 152 %%.")
	return out, nil
}

// batchesAndQueues looks at table 4's networks at each policy's goodput.
func batchesAndQueues(ctx context.Context, e *Env) (out Result, err error) {
	// "The majority of requests run with batch sizes greater than" (section 5.2.2).
	printed := map[string]float64{"ResNet50" + deferred: 14, "ResNet50nexus": 6, "InceptionResNetV2" + deferred: 8, "InceptionResNetV2nexus": 3}
	list, policies := slices.DeleteFunc(symphonyTable4(), func(s DispatchSetting) bool { return s.Delay != (dispatch.Delay{}) }), dispatchPolicies()
	list = e.settings(list)
	for i := range list {
		list[i].Seeds = 1
	}
	all, err := goodputs(ctx, e, "Goodputs", list, policies)
	if err != nil {
		return out, err
	}
	effort := Full()
	if e.Quick {
		effort = Quick()
	}
	for i := range list {
		s := &list[i]
		for k, policy := range policies {
			if all[i][k].Goodput == 0 {
				continue
			}
			var sizes, queues []float64 // of every request that was served
			o := s.options(policy, all[i][k].Goodput, effort, func() bool { return ctx.Err() != nil })
			o.Observer.Batch = func(b simulate.Batch) {
				for _, r := range b.Requests {
					sizes = append(sizes, float64(b.Size))
					queues = append(queues, (b.Begin-r.Ready).Seconds()*1000/s.Models[0].SLO)
				}
			}
			if _, err := s.play(policy, all[i][k].Goodput, o); err != nil {
				return out, err
			}
			slices.Sort(sizes)
			slices.Sort(queues)
			at := Set("network", s.Name)
			out.Add(at, policy, "batch, p10", "", rateQuantile(sizes, 0.1))
			out.AddPrinted(at, policy, "batch, p50", "", rateQuantile(sizes, 0.5), printed[s.Name+policy])
			out.Add(at, policy, "batch, p90", "", rateQuantile(sizes, 0.9))
			out.Add(at, policy, "queue, p50", "of the SLO", rateQuantile(queues, 0.5))
			out.Add(at, policy, "queue, p99", "of the SLO", rateQuantile(queues, 0.99))
		}
	}
	out.Note("Sizes are those of the batches that requests were in. The printed ones are below the median: most requests of Symphony and Nexus run in larger batches. The paper says that requests of Symphony wait a half to a third as long as those of the others, and those of Nexus half the SLO at most.")
	return out, nil
}

// rateQuantile is the quantile of sorted values.
func rateQuantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// flatTop offers a cluster up to twice what deferred can do.
func flatTop(ctx context.Context, e *Env) (out Result, err error) {
	s := DispatchSetting{Models: alike(stableModels, stableSLO), Devices: stableDevices, Shape: 1}
	all, err := goodputs(ctx, e, "Goodput", []DispatchSetting{s}, []string{deferred})
	if err != nil {
		return out, err
	}
	peak, policies := all[0][0].Goodput, dispatchPolicies()
	effort, loads := Full(), []float64{0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2}
	if e.Quick {
		effort, loads = Quick(), []float64{0.5, 1, 1.5}
	}
	results := make([]simulate.Result, len(loads)*len(policies))
	stop := func() bool { return ctx.Err() != nil }
	err = e.Each(ctx, "Offered loads", len(results), func(i int) (err error) {
		rate := loads[i/len(policies)] * peak
		policy := policies[i%len(policies)]
		results[i], err = s.play(policy, rate, s.options(policy, rate, effort, stop))
		return err
	})
	if err != nil {
		return out, err
	}
	for i, r := range results {
		at, policy := Set("offered", loads[i/len(policies)]), policies[i%len(policies)]
		busy := 0.0
		for _, d := range r.Devices {
			busy += d.Utilisation / float64(len(r.Devices))
		}
		out.Add(at, policy, goodput, "", float64(r.Total().Completed)/r.Duration.Seconds()/peak)
		out.Add(at, policy, "busy", "", busy)
	}
	out.Note("Offered load and goodput are in goodputs of deferred, %.0f requests per second. As in the paper clockwork falls under overload, and has all devices busy before its peak.", peak)
	return out, nil
}

// networkDelay has every message take longer, for objectives from tight to loose.
func networkDelay(ctx context.Context, e *Env) (out Result, err error) {
	delays, slos := []int{0, 10, 20, 33, 100, 500, 1000, 2000, 5000}, []float64{20, 25, 50, 100}
	if e.Quick {
		delays, slos = []int{0, 33, 1000}, slos[1:2]
	}
	var list []DispatchSetting
	for _, slo := range slos {
		for _, us := range delays {
			list = append(list, DispatchSetting{Models: alike(delayModels, slo), Devices: delayDevices, Shape: 1,
				Delay: dispatch.Delay{Control: time.Duration(us) * time.Microsecond}})
		}
	}
	policies := []string{deferred, adaptive}
	all, err := goodputs(ctx, e, "Delays of the network", list, policies)
	if err != nil {
		return out, err
	}
	for i := range list {
		at := Set("slo_ms", slos[i/len(delays)], "delay_us", delays[i%len(delays)])
		for k, policy := range policies {
			without := all[i/len(delays)*len(delays)][k].Goodput
			out.Add(at, policy, goodput, "1/s", all[i][k].Goodput)
			out.Add(at, policy, "goodput without delay", "", all[i][k].Goodput/without)
		}
	}
	out.Note("The delay is between dispatcher and device, for every batch. RDMA's 99.99th percentile is 33 µs in the paper; its figure goes on to the tail of TCP.")
	return out, nil
}

// Settings of the comparison of holding back and starting at once (Symphony, section
// 4.3, table 3).
var (
	homogeneous = []string{"DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"}
	homeModels  = []int{8, 16, 24, 32, 48, 64}
	homeDevices = []float64{1, 1.5, 2, 2.5, 3, 3.5, 4} // of each model
	homeSLOs    = []float64{20, 25, 30, 40, 50}
	homeShapes  = []float64{0.1, 0.2, 0.3, 0.5, 0.7, 1}
)

// homeDrawn is how many of the 7,560 combinations part d of figure 4 draws.
const homeDrawn = 60

// microbenchmark lists the settings of figure 4: a mixture of all networks (a), a
// network that batching helps much (b) and one that it does not (c), with so many devices
// for each, and cases drawn from all combinations (d).
func microbenchmark(quick bool, each float64) []DispatchSetting {
	var list []DispatchSetting
	for _, shape := range homeShapes {
		all := gtx1080Ti()
		list = append(list, DispatchSetting{Group: "a", Name: fmt.Sprintf("%d networks, gamma %g", len(all), shape), Models: all, Devices: int(each * float64(len(all))), Shape: shape})
	}
	for _, of := range []struct{ part, name string }{{"b", "DenseNet121"}, {"c", "BERT"}} {
		for _, slo := range []float64{30, 50} {
			for _, shape := range []float64{0.1, 0.3, 1} {
				one := home(of.part, of.name, 16, each, slo, shape)
				one.Name = fmt.Sprintf("16 %s, SLO %g ms, gamma %g", of.name, slo, shape)
				list = append(list, one)
			}
		}
	}
	rng := rand.New(rand.NewPCG(4, 3))
	for range homeDrawn {
		list = append(list, home("d", pick(rng, homogeneous), pick(rng, homeModels), pick(rng, homeDevices), pick(rng, homeSLOs), pick(rng, homeShapes)))
	}
	list = slices.DeleteFunc(list, func(s DispatchSetting) bool { return s.Models[0].Each+s.Models[0].Fixed > s.Models[0].SLO })
	if quick {
		return []DispatchSetting{list[5], list[6], list[len(list)-1]}
	}
	return list
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// home is a setting of so many models alike, with devices for each.
func home(part, name string, models int, each, slo, shape float64) DispatchSetting {
	all := gtx1080Ti()
	one := all[slices.IndexFunc(all, func(n Network) bool { return n.Name == name })]
	one.SLO = slo
	return DispatchSetting{
		Group: part, Name: fmt.Sprintf("%d %s, %g devices each, SLO %g ms, gamma %g", models, name, each, slo, shape),
		Models: slices.Repeat([]Network{one}, models), Devices: int(each * float64(models)), Shape: shape,
	}
}
