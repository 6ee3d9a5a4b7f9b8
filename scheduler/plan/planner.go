package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// planner holds a problem in the form that the algorithms want: modules as
// indices in topological order.
type planner struct {
	pipe    *pipelines.Pipeline
	options Options
	split   split
	dag     *dag
	modules []*scheduler
	pace    []float64 // rates with the dummy requests that the split needs; nil when none

	search *deadline // policy brute

	declared time.Duration // the objective with what riders take of it; 0 without riders

	effort     int  // see wholeModule
	restricted bool // the lower bound is that of plans with two groups a module
}

// newPlanner checks problem and options. Its error is about input, never about
// an objective that cannot be met.
func newPlanner(p *Problem, o Options) (*planner, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	o = o.baseline()
	d, err := newDAG(&p.Pipeline)
	if err != nil {
		return nil, err
	}
	pl := &planner{pipe: &p.Pipeline, options: o, dag: d, effort: maxEffort}
	pl.split, _ = parseSplit(o.Split) // checked above
	if o.policy() == PolicyNexus {
		pl.split.step = segment(pl.pipe.SLO)
	}
	if q := pl.split.step; q > 0 && pl.pipe.SLO/q > maxSteps {
		return nil, fmt.Errorf("plan: split %q cuts an SLO of %s into more than %d steps; take a longer step", o.Split, spell(pl.pipe.SLO), maxSteps)
	}
	rates := p.Pipeline.Rates()
	for _, name := range d.names {
		list, err := configs(p, p.Pipeline.Module(name), o)
		if err != nil {
			return nil, err
		}
		pl.modules = append(pl.modules, &scheduler{
			name: name, rate: rates[name], configs: list,
			roundRobin: o.without("tc"), twoConfigs: o.without("multi"), noDummies: o.without("dummy"),
			exact: o.policy() == PolicyExact, oneConfig: o.oneConfig(),
			apart: o.without("dt"), oneTuple: o.without("multi:one"), literal: o.Reading == ReadingLiteral, pacing: o.policy() == PolicyPiccolo,
			brute: o.policy() == PolicyBrute,
		})
	}
	pl.boarding(p)
	if o.policy() == PolicyExact && o.costModel() != CostProportional {
		for _, m := range pl.modules {
			m.whole = newWholeModule(m, &pl.effort)
		}
	}
	return pl, nil
}

// fastest is the least time in which the module can answer: its shortest
// duration where dummy requests may fill the batch at any rate, and otherwise
// with the time that the batch takes to fill.
func (s *scheduler) fastest() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, c := range s.configs {
		d := c.duration
		switch {
		case s.rate == 0:
			d = 0
		case s.noDummies:
			d = s.worstAt(c, s.rate)
		case s.roundRobin:
			d = 2 * c.duration
		}
		least = min(least, d)
	}
	return least
}

// worstAt is the worst case of serving the whole rate with c, as Algorithm 2
// judges configurations.
func (s *scheduler) worstAt(c config, rate float64) time.Duration {
	if rate == 0 {
		return 0
	}
	if rate < c.throughput()*(1-rateTolerance) && !s.oneConfig && !s.literal {
		return max(s.worstCase(c, rate), partialWorstCase(c, rate))
	}
	return s.worstCase(c, rate)
}

// InfeasibleError says why no plan keeps the objective.
type InfeasibleError struct {
	Pipeline string
	Path     []string      // the path that needs too much; empty when Reason is about something else
	Needs    time.Duration // what the path needs at the least
	SLO      time.Duration
	Reason   string
}

// Error is the reason, with pipeline and path.
func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("plan: pipeline %q: %s", e.Pipeline, e.Reason)
}

// checkPath is an *InfeasibleError when some path is too long even at its
// fastest.
func (p *planner) checkPath() error {
	need := map[string]time.Duration{}
	for _, m := range p.modules {
		need[m.name] = m.fastest()
	}
	path, total, err := p.pipe.LongestPath(func(name string) time.Duration { return need[name] })
	if err != nil {
		return err
	}
	collects := p.options.without("tc") || p.options.without("dummy") // then total has the time to collect
	enough := total < p.pipe.SLO || collects && total == p.pipe.SLO
	if enough || total == 0 {
		return nil
	}
	return &InfeasibleError{Pipeline: p.pipe.Name, Path: path, Needs: total, SLO: p.pipe.SLO, Reason: tooSlow(path, total, p.pipe.SLO)}
}

func tooSlow(path []string, needs, slo time.Duration) string {
	who := "module " + path[0]
	if len(path) > 1 {
		who = "the fastest path"
		for i, name := range path {
			if i > 0 {
				who += " ->"
			}
			who += " " + name
		}
	}
	if needs == slo {
		return fmt.Sprintf("%s needs %s, which leaves nothing of the SLO of %s to collect a batch; raise the SLO", who, spell(needs), spell(slo))
	}
	return fmt.Sprintf("%s needs %s, %s more than the SLO of %s", who, spell(needs), spell(needs-slo), spell(slo))
}

// spell writes a duration in milliseconds or seconds, with a space before the
// unit and no more digits than it needs.
func spell(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.4g s", d.Seconds())
	}
	ms := float64(d) / float64(time.Millisecond)
	if r := math.Round(ms*1000) / 1000; r != 0 {
		ms = r
	}
	return fmt.Sprintf("%g ms", ms)
}
