package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Defaults of the suite.
const (
	DefaultSeed      = 1131
	DefaultWorkloads = 1131 // as many as the Harpagon paper evaluates with
)

// Workload is one problem of the suite and what it was drawn as.
type Workload struct {
	ID          int // from 0
	Application string
	Families    []string // of the modules' profiles, in their order
	SLOFactor   float64  // SLO over fastest path
	Problem     plan.Problem
}

// Describe names the workload in one line.
func (w Workload) Describe() string {
	return fmt.Sprintf("workload %d: %s at %.4g requests per second, SLO %.4g ms (%.2f times the fastest path), %d kinds of hardware, profiles %v",
		w.ID, w.Application, w.Problem.Pipeline.Rate, w.Problem.Pipeline.SLO.Seconds()*1000, w.SLOFactor, len(w.Problem.Hardware), w.Families)
}

// Workloads draws n workloads of the wide regime. An error means that the library is
// broken.
func Workloads(seed uint64, n int) ([]Workload, error) { return wide().Workloads(seed, n) }

// Workloads draws n workloads. An error means that the library is broken.
func (g Regime) Workloads(seed uint64, n int) ([]Workload, error) {
	doc, err := library.Document()
	if err != nil {
		return nil, err
	}
	all := make([]Workload, 0, n)
	for i := range n {
		w, err := drawWorkload(drawer{rand.New(rand.NewPCG(seed, uint64(i))), g}, doc.Pipelines[i%len(doc.Pipelines)])
		if err != nil {
			return nil, fmt.Errorf("suite: workload %d: %w", i, err)
		}
		w.ID, w.Problem.Pipeline.Attainment = i, pipelines.NoAttainment // the papers count fan-outs by their mean rate
		all = append(all, w)
	}
	return all, nil
}

// WithConcurrency is the workload with profile points at concurrency 2 and 4
// besides: s engines side by side slow each other down to 1 + k·(s-1) times the
// duration, k from 0.5 to 0.95 for each module. The objective and everything
// else stay as they are.
func (w Workload) WithConcurrency(seed uint64) Workload {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, concurrencyStream+uint64(w.ID)))}
	modules := slices.Clone(w.Problem.Pipeline.Modules)
	for i := range modules {
		k := d.between(0.5, 0.95)
		points := slices.Clone(modules[i].Profile.Points)
		for _, at := range modules[i].Profile.Points {
			for _, s := range []int{2, 4} {
				more := at
				more.Concurrency = s
				more.Duration = time.Duration(math.Round(float64(at.Duration) * (1 + k*float64(s-1))))
				points = append(points, more)
			}
		}
		modules[i].Profile.Points = points
	}
	w.Problem.Pipeline.Modules = modules
	return w
}

// concurrencyStream keeps these draws apart from those of the workloads.
const concurrencyStream = 1 << 32

func drawWorkload(d drawer, app pipelines.Pipeline) (Workload, error) {
	devices := d.devices()
	batches := d.batches()
	w := Workload{Application: app.Name, SLOFactor: d.between(d.from.SLO[0], d.from.SLO[1])}
	pipe := app
	pipe.Rate = d.logarithmic(d.from.Rate[0], d.from.Rate[1])
	pipe.Modules = make([]pipelines.Module, len(app.Modules))
	for i, m := range app.Modules {
		family := d.family()
		m.ProfileFile = ""
		if d.from.PerModule {
			devices = d.devices()
		}
		m.Profile = pipelines.Profile{Points: d.points(family, devices, batches)}
		pipe.Modules[i] = m
		w.Families = append(w.Families, family)
	}
	w.Problem = plan.Problem{Hardware: drawnHardware(devices), Pipeline: pipe}
	_, fastest, err := pipe.FastestPath(w.Problem.Hardware)
	if err != nil {
		return w, err
	}
	w.Problem.Pipeline.SLO = time.Duration(math.Round(float64(fastest) * w.SLOFactor))
	return w, nil
}

// Regime is what workloads are drawn from. Ranges are drawn log-uniformly, but for the
// objective.
type Regime struct {
	Name     string
	Rate     [2]float64 // requests per second at the source
	SLO      [2]float64 // times the application's fastest path
	Start    [2]float64 // of a batch, on the fastest device, in milliseconds
	Step     [2]float64 // of each request of a batch, likewise
	Families []string   // that profiles are drawn from

	Batches [][]int // sets to draw from; none for powers of two to 32 or 64

	Devices   func(drawer) []drawnDevice // nil for two or three kinds that are drawn
	PerModule bool                       // how fast devices are is drawn for each module

	Concurrent bool // profiles for several batches at a time besides; see WithConcurrency
}

// wide is the regime of our own suite: it holds more than the papers evaluate with.
func wide() Regime {
	return Regime{Name: "wide", Rate: [2]float64{20, 1000}, SLO: [2]float64{2, 10},
		Start: [2]float64{5, 50}, Step: [2]float64{0.5, 20}, Families: Families()}
}

// Published is the regime of the papers as far as their text and tables state it. What they
// leave open is chosen as follows:
//
//	rate      50 to 200 at the source: the examples have 100 and 198 a module (Harpagon,
//	          section II), 285 and 300 (Piccolo, section II)
//	profiles  durations of 55 to 100 ms and 20 to 27 ms a request, and batches of 2, 4, 8
//	          or 2, 8, 32: lines through the three modules of Table I; batch 1 besides,
//	          with which Algorithm 2 begins. The tables do not say of which hardware
//	drawnHardware  two kinds, as the testbed of P100 and V100 (section IV-A): the dearer costs
//	          1.48 times as much, by public list prices of a cloud (2.07 and 3.06 an
//	          hour), and the cheaper is chosen to be 0.4 to 0.7 times as fast
//	modules   the five applications of the papers, two to four modules each
//	SLO       2 to 5 times the fastest path is chosen: the example of M1 has 0.4 s, 2.5
//	          times its batch of two
func Published() Regime {
	return Regime{Name: "published", Rate: [2]float64{50, 200}, SLO: [2]float64{2, 5},
		Start: [2]float64{55, 100}, Step: [2]float64{20, 27}, Families: []string{Affine},
		Batches: [][]int{{1, 2, 4, 8}, {1, 2, 8, 32}}, Devices: testbed}
}

// testbed is two kinds, the dearer first.
func testbed(d drawer) []drawnDevice {
	return []drawnDevice{{name: "v100", speed: 1, price: 3.06}, {name: "p100", speed: d.between(0.4, 0.7), price: 2.07}}
}

// Families of profiles.
const (
	Affine  = "affine"
	Stairs  = "stairs"
	Noisy   = "noisy"
	Gaining = "gaining"
	Tiring  = "tiring"
)

// Families lists the families that profiles are drawn from.
func Families() []string { return []string{Affine, Stairs, Noisy, Gaining, Tiring} }

const (
	tiringFrom = 8.0 // batch from which a request takes longer
	tiringBy   = 1.3 // times as long
)

// drawer is a stream of random choices; nothing else in the package is random.
type drawer struct {
	*rand.Rand
	from Regime
}

func (d drawer) between(low, high float64) float64 { return low + (high-low)*d.Float64() }

func (d drawer) logarithmic(low, high float64) float64 {
	return math.Exp(d.between(math.Log(low), math.Log(high)))
}

func (d drawer) family() string { return d.from.Families[d.IntN(len(d.from.Families))] }

// drawnDevice is a kind of hardware and how fast it is.
type drawnDevice struct {
	name  string
	speed float64 // 1 for the fastest
	price float64
}

func (d drawer) devices() []drawnDevice {
	if d.from.Devices != nil {
		return d.from.Devices(d)
	}
	top, power := d.between(1, 4), d.between(0.8, 1.5)
	return d.kinds(2+d.IntN(2), top, power, func() float64 { return d.between(0.35, 0.75) })
}

// kinds are n devices, each slower than the one before by what slower draws.
func (d drawer) kinds(n int, top, power float64, slower func() float64) []drawnDevice {
	list := []drawnDevice{{name: "gpu-1", speed: 1, price: rounded(top, 100)}}
	for len(list) < n {
		speed := list[len(list)-1].speed * slower()
		price := top * math.Pow(speed, power) * d.between(0.85, 1.15)
		list = append(list, drawnDevice{name: fmt.Sprintf("gpu-%d", len(list)+1), speed: speed, price: max(0.01, rounded(price, 100))})
	}
	return list
}

func (d drawer) batches() []int {
	if len(d.from.Batches) > 0 {
		return d.from.Batches[d.IntN(len(d.from.Batches))]
	}
	list := []int{1, 2, 4, 8, 16, 32}
	if d.IntN(4) == 0 {
		list = append(list, 64)
	}
	return list
}

// points is a profile of the family on all devices.
func (d drawer) points(family string, devices []drawnDevice, batches []int) []pipelines.Point {
	start, step := d.logarithmic(d.from.Start[0], d.from.Start[1]), d.logarithmic(d.from.Step[0], d.from.Step[1])
	width := float64(4 + 4*d.IntN(2))
	gain := d.between(0.7, 0.95)
	var list []pipelines.Point
	for _, dev := range devices {
		for _, batch := range batches {
			b, noise := float64(batch), 1.0
			switch family {
			case Stairs:
				b = width * math.Ceil(b/width)
			case Noisy:
				noise = d.between(0.95, 1.08)
			case Gaining:
				b = math.Pow(b, gain)
			case Tiring:
				b += (tiringBy - 1) * max(0, b-tiringFrom)
			}
			ms := noise * (start/math.Sqrt(dev.speed) + step*b/dev.speed)
			list = append(list, pipelines.Point{
				Hardware: dev.name, Batch: batch, Concurrency: 1,
				Duration: time.Duration(rounded(ms, 1000) * float64(time.Millisecond)),
			})
		}
	}
	return list
}

func drawnHardware(devices []drawnDevice) []pipelines.Hardware {
	var list []pipelines.Hardware
	for _, dev := range devices {
		list = append(list, pipelines.Hardware{Name: dev.name, Price: dev.price})
	}
	return list
}

// rounded is x to the nearest of so many parts of one, so that problems can be
// written down with few digits.
func rounded(x, parts float64) float64 { return math.Round(x*parts) / parts }

// The size of what Growth makes besides its modules.
const (
	growthHardware = 10
	growthBatches  = 16
	growthRate     = 300.0
	growthSLO      = 8.0 // times the fastest path
	growthWidth    = 3   // modules side by side, at most
)

// Sizes lists the numbers of modules of a growth curve.
func Sizes() []int { return []int{1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 200} }

// Growth draws a large problem: a DAG of so many modules in layers of one to
// three, each module fed by one or two of the layer above, ten kinds of
// drawnHardware and sixteen batch sizes.
func Growth(seed uint64, modules int) plan.Problem {
	d := drawer{rand.New(rand.NewPCG(seed, uint64(modules))), wide()}
	devices := d.kinds(growthHardware, 3, 1.1, func() float64 { return d.between(0.7, 0.95) })
	var batches []int
	for b := range growthBatches {
		batches = append(batches, 1+2*b)
	}
	pipe := pipelines.Pipeline{Name: fmt.Sprintf("growth-%d", modules), Rate: growthRate}
	var above, layer []string
	width := 1
	for i := range modules {
		m := pipelines.Module{Name: fmt.Sprintf("m%03d", i), Fanout: 1, Inputs: d.feed(above)}
		m.Profile = pipelines.Profile{Points: d.points(d.family(), devices, batches)}
		pipe.Modules = append(pipe.Modules, m)
		if layer = append(layer, m.Name); len(layer) >= width {
			above, layer, width = layer, nil, 1+d.IntN(growthWidth)
		}
	}
	p := plan.Problem{Hardware: drawnHardware(devices), Pipeline: pipe}
	_, fastest, _ := pipe.FastestPath(p.Hardware) // layers make no cycle
	p.Pipeline.SLO = time.Duration(float64(fastest) * growthSLO)
	return p
}

// feed draws one or two different modules of the layer above.
func (d drawer) feed(above []string) []pipelines.Binding {
	var list []pipelines.Binding
	for i, k := range d.Perm(len(above)) {
		if i > d.IntN(2) {
			break
		}
		list = append(list, pipelines.Binding{Name: fmt.Sprintf("in%d", i), From: pipelines.Ref{Module: above[k], Port: "out"}})
	}
	return list
}

// GrowthPoint is how long a variant needed for one size.
type GrowthPoint struct {
	Modules int
	Status  plan.Status
	Cost    float64
	Bound   float64
	Solve   float64
}

// Grow plans a growth problem.
func (v Variant) Grow(p plan.Problem, clock func() time.Duration, limit time.Duration) GrowthPoint {
	o := v.Options
	o.Clock, o.TimeLimit = clock, limit
	found := policies.Solve(p, o)
	return GrowthPoint{
		Modules: len(p.Pipeline.Modules), Status: found.Status,
		Cost: found.Cost, Bound: found.LowerBound, Solve: quantity.Millis(found.SolveTime),
	}
}
