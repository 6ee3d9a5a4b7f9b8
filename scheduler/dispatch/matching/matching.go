package matching

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// never is the instant that does not come.
const never = dispatch.Never

// Constants of policy matching.
const (
	// DefaultSafety is the share of the SLO within which a query must be
	// predicted to finish (ξ of section 5.1).
	DefaultSafety = 0.98

	// latePenalty and nearPenalty are the costs, in SLOs, of a pair that is
	// predicted to finish late (Eq. 8), or within the margin before that.
	latePenalty = 10
	nearPenalty = 5

	// DefaultMatchWidth is how many queries a decision looks at, for each
	// instance of the pool. More would let short queries overtake long ones
	// whenever a queue builds up: the cheapest pairs are those of short
	// queries.
	DefaultMatchWidth = 1

	// DefaultMatchInstances is how many instances a decision looks at. An
	// instance that idles later than that many others hardly changes what
	// should start now, and the time of a decision grows with the cube.
	DefaultMatchInstances = 64
)

// InstanceType is one kind of instance of a pool.
type InstanceType struct {
	Name string

	// Latency is what was measured of a query by its size; empty where nothing
	// was. What the policy sees of its own queries goes before it.
	Latency pipelines.Latency
}

// Options configures policy matching.
type Options struct {
	// Types are the kinds of instances; an executor's Group is a place in it.
	Types []InstanceType

	// Base is the place in Types of the kind that meets the SLO at every size.
	Base int32

	// SLO is the time from arrival to deadline; a request without a Deadline
	// is due one SLO after its Arrival.
	SLO time.Duration

	// Largest is the largest size expected, at which kinds are compared; 0 for
	// the largest seen.
	Largest int32

	// Coefficients weigh a second of each type; empty for those of the paper:
	// the latency of the largest query on the base over that on the type. A
	// plan of package pool gives what a second is worth in its configuration.
	Coefficients []float64

	// Safety is the share of the SLO within which a query must be predicted to
	// finish as long as predictions have not proven better; 0 means
	// DefaultSafety.
	Safety float64

	// MaxQueue is the most requests that may wait; one more is dropped as Full.
	// 0 means DefaultMaxQueue.
	MaxQueue int

	// Instances and Width bound a decision. It looks at that many instances,
	// those that idle first and then those that are free soonest, and at Width
	// queries for each, earliest arrivals first. 0 means DefaultMatchInstances
	// and DefaultMatchWidth.
	Instances int
	Width     int
}

// Check reports what is wrong with the options.
func (o Options) Check() error {
	switch {
	case len(o.Types) == 0:
		return fmt.Errorf("a pool needs at least one type of instance")
	case o.Base < 0 || int(o.Base) >= len(o.Types):
		return fmt.Errorf("the base is one of the %d types, not number %d", len(o.Types), o.Base)
	case o.SLO <= 0:
		return fmt.Errorf("give an SLO above zero, not %v", o.SLO)
	case o.Safety < 0 || o.Safety > 1 || math.IsNaN(o.Safety):
		return fmt.Errorf("the safety is a share of the SLO between 0 and 1, not %v", o.Safety)
	case len(o.Coefficients) != 0 && len(o.Coefficients) != len(o.Types):
		return fmt.Errorf("give one coefficient for each of the %d types, not %d", len(o.Types), len(o.Coefficients))
	}
	for i, c := range o.Coefficients {
		if !(c > 0) || math.IsInf(c, 0) {
			return fmt.Errorf("the coefficient of %s must be above zero, not %v", o.Types[i].Name, c)
		}
	}
	return nil
}

// New builds the query distribution of Kairos (section 5.1): whenever
// an instance idles, waiting queries are paired with instances at the least sum
// of costs, and pairs whose instance idles start. The cost of a pair is the
// time until the instance would have served the query (the rest of what it does
// now, and the latency of the query), times the coefficient of the instance's
// type, or a penalty of ten SLOs where the query would be late.
//
// Beyond the paper, a query that no instance can serve in time any more is
// dropped at once, and nothing starts that is predicted to be late.
//
// The margin of Safety shrinks, for each type, to a few times the error that
// predictions had there.
//
// Latencies are learned from the time between Start and ExecutorFree: by size
// where the size was seen, else by the profile corrected by what was seen of
// it, else by a line through what was seen. A type of which nothing is known is
// taken to be fast, so that its first query tells.
func New(o Options) (dispatch.Policy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	p := &matching{
		slo: o.SLO, base: o.Base, largest: o.Largest, learnLargest: o.Largest == 0,
		maxQueue: o.MaxQueue, width: o.Width, most: o.Instances, timer: never, earliest: never,
		coefficients: make([]float64, len(o.Types)), fixed: len(o.Coefficients) > 0,
		latency: make([][]dispatch.Time, len(o.Types)),
	}
	copy(p.coefficients, o.Coefficients)
	if p.maxQueue <= 0 {
		p.maxQueue = dispatch.DefaultMaxQueue
	}
	if p.width <= 0 {
		p.width = DefaultMatchWidth
	}
	if p.most <= 0 {
		p.most = DefaultMatchInstances
	}
	safety := o.Safety
	if safety == 0 {
		safety = DefaultSafety
	}
	p.margin = time.Duration(math.Round((1 - safety) * float64(o.SLO)))
	for _, t := range o.Types {
		p.types = append(p.types, newLearned(t))
	}
	return p, nil
}

type matching struct {
	slo, margin  dispatch.Time
	base         int32
	largest      int32
	learnLargest bool
	maxQueue     int
	width        int
	most         int  // instances of one decision
	fixed        bool // coefficients were given
	coefficients []float64
	types        []learned

	now       dispatch.Time
	timer     dispatch.Time // asked for and not yet come
	earliest  dispatch.Time // no later than any deadline of waiting
	uneven    bool          // some of waiting have other deadlines than the objective gives them
	worst     dispatch.Time // the longest that any of waiting was expected to take on the base
	waiting   []dispatch.Request
	instances []instance // by ExecutorID
	up        []dispatch.ExecutorID
	soonest   []dispatch.ExecutorID `record:"-"` // that a decision looks at
	idle      int

	solver  Assignment           `record:"-"`
	cost    []int64              `record:"-"`
	latency [][]dispatch.Time    `record:"-"` // by type and place among the candidates
	first   []dispatch.Time      `record:"-"` // by type: when an instance is first free
	batches []dispatch.RequestID `record:"-"`
	started []bool               `record:"-"`
}

// instance is one executor.
type instance struct {
	group int32
	up    bool
	busy  bool
	size  int32 // that it serves now
	since dispatch.Time
	until dispatch.Time // predicted
}

func (p *matching) Name() string { return "matching" }

func (p *matching) Len() int { return len(p.waiting) }

func (p *matching) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.now = max(p.now, now)
	p.batches = p.batches[:0]
	switch ev.Kind {
	case dispatch.Arrive:
		if len(p.waiting) >= p.maxQueue {
			return append(out, dispatch.Action{Act: dispatch.Drop, Request: ev.Request.ID, Reason: dispatch.Full})
		}
		p.arrive(ev.Request)
	case dispatch.Cancel:
		p.cancel(ev.Request.ID)
	case dispatch.ExecutorUp:
		p.join(ev.Executor, ev.Group)
	case dispatch.ExecutorFree:
		p.free(ev.Executor)
	case dispatch.ExecutorGone:
		p.leave(ev.Executor)
	case dispatch.Timer:
		p.timer = never
	}
	if p.idle > 0 || p.now >= p.earliest || ev.Kind == dispatch.ExecutorGone {
		out = p.decide(out)
	}
	return p.wake(out)
}

// arrive keeps the queue in the order of arrivals.
func (p *matching) arrive(r dispatch.Request) {
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + p.slo
	}
	r.Size = max(1, r.Size)
	if p.learnLargest {
		p.largest = max(p.largest, r.Size)
	}
	p.earliest = min(p.earliest, r.Deadline)
	if len(p.waiting) == 0 {
		p.uneven, p.worst = false, 0
	}
	p.uneven = p.uneven || r.Deadline != r.Arrival+p.slo
	p.worst = max(p.worst, p.expect(int(p.base), r.Size))
	i := len(p.waiting)
	for i > 0 && p.waiting[i-1].Arrival > r.Arrival {
		i--
	}
	p.waiting = slices.Insert(p.waiting, i, r)
}

func (p *matching) cancel(id dispatch.RequestID) {
	if i := slices.IndexFunc(p.waiting, func(r dispatch.Request) bool { return r.ID == id }); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}

func (p *matching) join(id dispatch.ExecutorID, group int32) {
	if id < 0 || group < 0 || int(group) >= len(p.types) {
		return
	}
	for int(id) >= len(p.instances) {
		p.instances = append(p.instances, instance{})
	}
	x := &p.instances[id]
	if x.up {
		return
	}
	*x = instance{group: group, up: true}
	p.up = append(p.up, id)
	slices.Sort(p.up)
	p.idle++
}

func (p *matching) free(id dispatch.ExecutorID) {
	x := p.instance(id)
	if x == nil || !x.busy {
		return
	}
	p.types[x.group].learn(x.size, p.now-x.since)
	p.worst = max(p.worst, p.expect(int(p.base), x.size))
	x.busy = false
	p.idle++
}

func (p *matching) leave(id dispatch.ExecutorID) {
	x := p.instance(id)
	if x == nil {
		return
	}
	if !x.busy {
		p.idle--
	}
	*x = instance{}
	p.up = slices.DeleteFunc(p.up, func(other dispatch.ExecutorID) bool { return other == id })
}

// instance is the executor of that name, nil where it is not up.
func (p *matching) instance(id dispatch.ExecutorID) *instance {
	if id < 0 || int(id) >= len(p.instances) || !p.instances[id].up {
		return nil
	}
	return &p.instances[id]
}

// wake asks for a timer at the earliest deadline, so that a query is answered
// for even where no instance ever frees.
func (p *matching) wake(out []dispatch.Action) []dispatch.Action {
	if len(p.waiting) == 0 || p.earliest == never || p.earliest == p.timer {
		return out
	}
	p.timer = p.earliest
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.timer})
}
