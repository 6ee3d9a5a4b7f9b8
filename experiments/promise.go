package experiments

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// promisePlay says how keepsPromise looks at plans.
type promisePlay struct {
	Requests int // of each pipeline at the least; 2000 when 0

	// Spare is how many gaps between two requests of a module a request may be
	// late. Plans need none where requests are even.
	Spare int

	// Eager lets batches start early, and Admission refuses what could not be in time,
	// as gateways do.
	Eager, Admission bool

	// Arrivals are how the requests of each pipeline come, and Duration for how long;
	// evenly at their rates, and for Requests of each, where there are none.
	Arrivals []arrivals.Process
	Duration time.Duration
}

// defaultRequests is how many requests keepsPromise plays where it is not told.
const defaultRequests = 2000

// keepsPromise plays requests against plans that were made together, under policy tc, and
// says which promise was broken first: nil means that
// every request of every pipeline was answered within its SLO. Plans that are
// not sound promise nothing and may fail.
func keepsPromise(all []pipelines.Pipeline, plans []plan.Plan, k promisePlay) error {
	if k.Requests == 0 {
		k.Requests = defaultRequests
	}
	var loads []simulate.Load
	duration := k.Duration
	for i, p := range all {
		if p.Rate <= 0 {
			loads = append(loads, simulate.Load{Pipeline: p})
			continue
		}
		if k.Duration == 0 {
			duration = max(duration, time.Duration(float64(k.Requests)/p.Rate*float64(time.Second)))
		}
		p.SLO += k.spare(&p)
		l := simulate.Load{Pipeline: p, Rate: p.Rate}
		if k.Arrivals != nil {
			l.Arrivals, l.Rate = k.Arrivals[i], 0 // as recorded
		}
		loads = append(loads, l)
	}
	r, err := simulate.OnPlans(loads, plans, simulate.Options{Dispatch: "tc", Duration: max(duration, 1), Eager: k.Eager, Admission: k.Admission, MaxQueue: maxKept})
	if err != nil {
		return err
	}
	for _, p := range r.Pipelines {
		if p.Completed == p.Requests {
			continue
		}
		return fmt.Errorf("simulate: pipeline %q does not keep its SLO: of %d requests %d were late and %d were dropped or refused; the longest took %s of %s%s",
			p.Pipeline, p.Requests, p.Late, p.Dropped+p.Refused, quantity.Duration(p.Latency.Max), quantity.Duration(p.SLO), furthestBehind(p))
	}
	return nil
}

// maxKept bounds queues where keepsPromise looks: a queue that is bounded is not what
// is in question.
const maxKept = 1 << 20

// spare is the time by which a request may be late.
func (k promisePlay) spare(p *pipelines.Pipeline) time.Duration {
	least := p.Rate
	for _, rate := range p.Rates() {
		least = min(least, rate)
	}
	if least <= 0 {
		return 0
	}
	return time.Duration(float64(k.Spare) / least * float64(time.Second))
}

// furthestBehind names the module that left furthest behind its budget.
func furthestBehind(p simulate.PipelineResult) string {
	worst := -1
	for i, m := range p.Modules {
		if m.Behind > 0 && (worst < 0 || m.Behind > p.Modules[worst].Behind) {
			worst = i
		}
	}
	if worst < 0 {
		return ""
	}
	m := p.Modules[worst]
	return fmt.Sprintf("; module %s was up to %s behind its budget of %s", m.Module, quantity.Duration(m.Behind), quantity.Duration(m.Budget))
}
