package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Policy is a way to plan one pipeline. Solve, SplitLatency and ScheduleModules
// ask it; they see to what all policies share: headroom, devices of which only
// so many exist, and what is said where there is no plan.
type Policy interface {
	// Complete checks options that name the policy and fills in what it sets
	// itself: the steps that it lacks, and how it splits.
	Complete(o Options) (Options, error)

	// Split divides the objective among the modules.
	Split(p *Prepared) (Budgets, error)

	// Schedule serves every module within its budget.
	Schedule(p *Prepared, b Budgets) (Plan, error)

	// Solve does both in one search.
	Solve(p *Prepared) (Plan, error)

	// Certify writes the lower bound that the policy proves into a plan whose
	// budgets came from elsewhere.
	Certify(p *Prepared, out *Plan)
}

// Prepared is a problem in the form that policies work on: modules as indices in
// topological order. Its options are those that the policy completed.
type Prepared struct {
	Pipeline *pipelines.Pipeline
	Options  Options
	DAG      *DAG
	Modules  []*ModuleProblem
	Held     []HeldDevice // see Problem
}

// ModuleProblem is what must be known to serve one module: what stays the same
// while budgets and dummy requests are tried.
type ModuleProblem struct {
	Name    string
	Rate    float64            // real requests per second
	Single  bool               // they come one by one, 1/Rate apart
	Bursts  demand.Bursts      // where they come several at once, so many at the most; else without items
	Branch  []demand.Condition // under which a request comes here
	Longest float64            // seconds: of the objective
	Limit   time.Duration      // of its latency, where it keeps state between frames; 0 for none
	Configs []Config           // best ratio of throughput to price first
}

// Within is the part of a budget that a module may use. One that keeps state takes a frame when it has
// answered the one before of its stream, and keeps a latency D for each where D <= 1/R - J (pipelines.Stream.Apart):
// let frame n come to the pipeline at a(n), and to the module by a(n) + U; it is answered by
//
//	max(a(n) + U, f(n-1)) + D,  and  f(n-1) <= a(n-1) + U + D <= a(n) - (1/R - J) + U + D <= a(n) + U
//
// so that by induction f(n) <= a(n) + U + D, as without state.
func (m *ModuleProblem) Within(budget time.Duration) time.Duration {
	if m.Limit > 0 {
		return min(budget, m.Limit)
	}
	return budget
}

// Fastest is the shortest duration of the module, 0 where nothing comes to it.
func (m *ModuleProblem) Fastest() time.Duration {
	if m.Rate == 0 {
		return 0
	}
	return slices.MinFunc(m.Configs, func(a, b Config) int { return cmp.Compare(a.Duration, b.Duration) }).Duration
}

// Fastest are the shortest durations of the modules: the least times in which they answer,
// since dummy requests may fill a batch at any rate.
func (p *Prepared) Fastest() []time.Duration {
	list := make([]time.Duration, len(p.Modules))
	for i, m := range p.Modules {
		list[i] = m.Fastest()
	}
	return list
}

// FastestOn is the shortest duration on a kind of hardware, 0 where there is none.
func (m *ModuleProblem) FastestOn(hardware string) time.Duration {
	shortest := time.Duration(0)
	for _, c := range m.Configs {
		if c.Hardware == hardware && (shortest == 0 || c.Duration < shortest) {
			shortest = c.Duration
		}
	}
	return shortest
}

// Prepare checks a problem and prepares it for a policy. Its error is about
// input, never about an objective that cannot be met.
func Prepare(p *Problem, o Options, by Policy) (*Prepared, error) {
	o.Policy, o.CostModel = o.policy(), o.costModel()
	o, err := by.Complete(o)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	d, err := newDAG(&p.Pipeline)
	if err != nil {
		return nil, err
	}
	out := &Prepared{Pipeline: &p.Pipeline, Options: o, DAG: d, Modules: make([]*ModuleProblem, len(d.Names)), Held: p.Held}
	modules, rates, most := make([]ModuleProblem, len(d.Names)), p.Pipeline.Rates(), p.Pipeline.Bursts()
	proves, branches := o.policy() == PolicyExact && p.Pipeline.ProvesEvery(), p.Pipeline.Conditions()
	for i, name := range d.Names {
		list, err := configs(p, p.Pipeline.Module(name), o)
		if err != nil {
			return nil, err
		}
		m := ModuleProblem{Name: name, Rate: rates[name], Single: most[name] == 1 && p.Pipeline.ComeSingly(), Longest: p.Pipeline.SLO.Seconds(), Configs: list}
		if proves && m.Rate > 0 {
			m.Rate = float64(most[name]) * p.Pipeline.Rate
			if b := burstsOf(&p.Pipeline, most[name]); b.Items > 1 || b.Any {
				m.Bursts, m.Rate = b, float64(b.Items)/b.Gap
			}
			for _, c := range branches[name] {
				m.Branch = append(m.Branch, demand.Condition{When: c.When.String(), Else: c.Else})
			}
		}
		if p.Pipeline.Module(name).State && len(p.Pipeline.StreamKinds()) > 0 {
			m.Limit = p.Pipeline.StreamsApart()
		}
		modules[i], out.Modules[i] = m, &modules[i]
	}
	return out, nil
}

// burstsOf are those in which items come to a module, so many of a request at the most.
func burstsOf(p *pipelines.Pipeline, most int) demand.Bursts {
	kinds := p.Sending()
	all := make([]demand.Bursts, 0, len(kinds))
	for _, s := range kinds {
		b := demand.Bursts{Items: most, Gap: 1 / s.Total(), Any: true, Jitter: s.Jitter.Seconds()}
		if !s.Chosen() {
			b.Items, b.Gap = int(min(float64(s.Count)*float64(most), math.MaxInt32)), 1/s.Rate
		}
		if s.Count > 0 {
			all = append(all, b)
		}
	}
	switch len(all) {
	case 0:
		return demand.Bursts{Items: most, Gap: 1 / p.Rate, Any: !p.ComeSingly()}
	case 1:
		if all[0].Any = !p.ComeSingly(); kinds[0].Chosen() && len(kinds) == 1 {
			all[0].Gap = 1 / p.Rate
		}
		return all[0]
	}
	return demand.Several(all)
}

// InOrder reads budgets in the order of the DAG, and checks that they keep the
// objective.
func (p *Prepared) InOrder(b Budgets) ([]time.Duration, error) {
	list := make([]time.Duration, len(p.Modules))
	for i, m := range p.Modules {
		budget, ok := b[m.Name]
		if !ok || budget < 0 {
			return nil, fmt.Errorf("plan: the budget of module %q is missing or negative; budgets come from SplitLatency", m.Name)
		}
		list[i] = budget
	}
	if long := p.DAG.Longest(list); long > p.Pipeline.SLO {
		return nil, fmt.Errorf("plan: the budgets add up to %s along a path, more than the SLO of %s", quantity.Duration(long), quantity.Duration(p.Pipeline.SLO))
	}
	return list, nil
}

// ByName is the opposite of InOrder.
func (p *Prepared) ByName(list []time.Duration) Budgets {
	b := Budgets{}
	for i, m := range p.Modules {
		b[m.Name] = list[i]
	}
	return b
}

// Scale is the greatest weight of a machine, 1 where there is none. Weights are
// divided by it so that no price overflows a sum.
func (p *Prepared) Scale() float64 {
	scale := 0.0
	for _, m := range p.Modules {
		for _, c := range m.Configs {
			scale = math.Max(scale, c.Weight)
		}
	}
	return cmp.Or(scale, 1)
}

// free reports that no machine costs anything: weights are not money then.
func (p *Prepared) free() bool {
	for _, m := range p.Modules {
		for _, c := range m.Configs {
			if c.Price != 0 {
				return false
			}
		}
	}
	return true
}

// inDeclaredOrder turns the order of the DAG into that of the declaration.
func (p *Prepared) inDeclaredOrder() []int {
	order := make([]int, 0, len(p.Modules))
	for _, m := range p.Pipeline.Modules {
		order = append(order, slices.Index(p.DAG.Names, m.Name))
	}
	return order
}

// Gap is the time, in seconds, whose requests a batch may hold however short it waits: 1/T where
// they come one by one, 0 where several may come at once, and where they come in bursts that
// of all bursts that may be waiting.
func (m *ModuleProblem) Gap() float64 {
	switch {
	case m.Bursts.Items > 0:
		return float64(m.Bursts.Came(m.Longest)) / float64(m.Bursts.Items) * m.Bursts.Gap
	case !m.Single:
		return 0
	}
	return 1 / m.Rate
}

// Period is the longest time in seconds between two batches of c that take the whole
// stream of T requests per second and whose requests wait for them no longer than
// window seconds:
//
//	min(b/T, max(gap, W))
//
// A batch holds at most b requests, and at most those that came within its window. It
// holds one, however short the window is: until the next one comes no batch is needed.
// It is 0 where there is no window.
func (m *ModuleProblem) Period(c *Config, window float64) float64 {
	if !(window > 0) {
		return 0
	}
	return math.Min(float64(c.Batch)/m.Rate, math.Max(m.Gap(), window))
}

// Serves is the share of the module's stream that one device can serve when every
// request must be answered within latency seconds, at the most, under any rule of
// dispatch: s·P/d for the Period P of windows L - d, since a device starts at most s/d
// batches a second.
func (m *ModuleProblem) Serves(c *Config, latency float64) float64 {
	return m.Period(c, latency-c.Duration.Seconds()) / c.Interval()
}

// Latency is the least, in seconds, that n devices with c promise the module's stream
// when they serve it alone; +Inf when they are too few. They start a batch every
// d/(s·n) seconds, spread evenly, and a request waits no longer than that, or not at
// all where the next one comes later.
func (m *ModuleProblem) Latency(c *Config, n int) float64 {
	if m.Bursts.Items > 0 {
		return math.Min(m.InBursts(c, n))
	}
	switch wait := c.Interval() / float64(n); {
	case m.Rate*wait > float64(c.Batch)*(1+RateTolerance):
		return math.Inf(1)
	case wait <= m.Gap()*(1+RateTolerance):
		return c.Duration.Seconds() + LeastWindow
	default:
		return c.Duration.Seconds() + wait
	}
}

// alone is the group that takes all requests of a module when it gives each one a
// batch of its own, since the next comes no sooner than the next batch; else nil. Where
// the test takes the stream for a fluid, such a batch would have to wait until a whole
// request has come.
func (m *Module) alone() *Group {
	busy := m.busy()
	if len(busy) != 1 || busy[0].Window <= 0 {
		return nil
	}
	g, period := &busy[0], busy[0].Period.Seconds()
	if g.Period >= longest {
		period = float64(g.Batch) / (g.Rate + g.DummyRate)
	}
	rounding := 2e-9 + 1e-12/m.Rate
	if period > 1/m.Rate+rounding || period < gap(m.Rate).Seconds()-rounding {
		return nil
	}
	return g
}

// WholeGap is the Gap in whole nanoseconds, rounded up, and 36 years at the most: what is
// shorter than the longest duration is that long indeed.
func (m *ModuleProblem) WholeGap() time.Duration {
	switch {
	case m.Bursts.Items > 0:
		return min(ToDuration(m.Gap()), longest/2)
	case !m.Single:
		return 0
	}
	return gap(m.Rate)
}

// gap is that of a stream of rate requests per second that come one by one.
func gap(rate float64) time.Duration { return min(ToDuration(1/rate), longest/2) }

// DAG is the pipeline as indices in topological order.
type DAG struct {
	Names    []string
	Up, Down [][]int
	Rows     [][]int // longest chains without a branch, see inRows
}

func newDAG(p *pipelines.Pipeline) (*DAG, error) {
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	d := &DAG{Names: order, Up: make([][]int, len(order)), Down: make([][]int, len(order))}
	for i, name := range order {
		for _, u := range p.Upstream(name) {
			j := slices.Index(order, u)
			d.Up[i] = append(d.Up[i], j)
			d.Down[j] = append(d.Down[j], i)
		}
	}
	d.Rows = d.inRows()
	return d, nil
}

// inRows are the longest chains of modules in which each but the last feeds only
// the next, and each but the first reads only from the one before.
func (d *DAG) inRows() [][]int {
	var rows [][]int
	for i := range d.Names {
		if len(d.Up[i]) == 1 && len(d.Down[d.Up[i][0]]) == 1 {
			continue // not the first of its row
		}
		row := []int{i}
		for next := i; len(d.Down[next]) == 1 && len(d.Up[d.Down[next][0]]) == 1; {
			next = d.Down[next][0]
			row = append(row, next)
		}
		rows = append(rows, row)
	}
	return rows
}

// Around gives for every module the longest path that passes through it,
// without the module itself. Times add up without overflow as long as none
// exceeds a quarter of the longest duration in any sum; ToDuration sees to it.
func (d *DAG) Around(weight []time.Duration) []time.Duration {
	head, tail := d.Before(weight), make([]time.Duration, len(weight))
	for i := len(weight) - 1; i >= 0; i-- {
		for _, v := range d.Down[i] {
			tail[i] = max(tail[i], SaturatingAdd(tail[v], weight[v]))
		}
	}
	for i := range head {
		head[i] = SaturatingAdd(head[i], tail[i])
	}
	return head
}

// Before gives for every module the longest path that leads to it.
func (d *DAG) Before(weight []time.Duration) []time.Duration {
	head := make([]time.Duration, len(weight))
	for i := range weight {
		for _, u := range d.Up[i] {
			head[i] = max(head[i], SaturatingAdd(head[u], weight[u]))
		}
	}
	return head
}

// Longest is the length of the longest path.
func (d *DAG) Longest(weight []time.Duration) time.Duration {
	var total time.Duration
	for i, a := range d.Around(weight) {
		total = max(total, SaturatingAdd(a, weight[i]))
	}
	return total
}

// Stretch lengthens the weights so that every module lies on a path as long as
// the limit, as far as one factor a module can: a module's weight is multiplied
// by limit over the longest path through it. No path becomes longer than the
// limit, because each of its modules is stretched by at most limit over the
// length of that path.
func (d *DAG) Stretch(weight []time.Duration, limit time.Duration) []time.Duration {
	out := slices.Clone(weight)
	for i, a := range d.Around(weight) {
		through := SaturatingAdd(a, weight[i])
		if weight[i] > 0 && through > 0 && through < limit {
			out[i] = max(weight[i], Scale(weight[i], limit, through))
			if a == 0 {
				out[i] = limit // to the nanosecond
			}
		}
	}
	return out
}

// Scale is x·num/den rounded down, within rounding of a float64.
func Scale(x, num, den time.Duration) time.Duration {
	return time.Duration(float64(x) * (float64(num) / float64(den)) * (1 - 4e-16))
}

// SaturatingAdd adds two times without overflow.
func SaturatingAdd(a, b time.Duration) time.Duration {
	const most = time.Duration(1) << 61
	return min(most, a+b)
}

// LongestThrough is the length of the longest path that passes module i.
func (d *DAG) LongestThrough(weight []time.Duration, i int) time.Duration {
	return SaturatingAdd(d.Around(weight)[i], weight[i])
}
