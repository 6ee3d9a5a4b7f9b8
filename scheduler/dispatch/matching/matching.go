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
	// was. The policy's own measurements of queries override it.
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
// it, else by a line through what was seen. A type without profile and queries is taken to
// be fast, so that it gets a first query.
func New(o Options) (dispatch.Policy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	p := &matching{
		SLO: o.SLO, Base: o.Base, Largest: o.Largest, LearnLargest: o.Largest == 0,
		MaxQueue: o.MaxQueue, Width: o.Width, Most: o.Instances, Timer: never, Earliest: never,
		Coefficients: make([]float64, len(o.Types)), Fixed: len(o.Coefficients) > 0,
		latency: make([][]dispatch.Time, len(o.Types)),
	}
	copy(p.Coefficients, o.Coefficients)
	if p.MaxQueue <= 0 {
		p.MaxQueue = dispatch.DefaultMaxQueue
	}
	if p.Width <= 0 {
		p.Width = DefaultMatchWidth
	}
	if p.Most <= 0 {
		p.Most = DefaultMatchInstances
	}
	safety := o.Safety
	if safety == 0 {
		safety = DefaultSafety
	}
	p.Margin = time.Duration(math.Round((1 - safety) * float64(o.SLO)))
	for _, t := range o.Types {
		p.Types = append(p.Types, newLearned(t))
	}
	return p, nil
}

type matching struct {
	SLO, Margin  dispatch.Time
	Base         int32
	Largest      int32
	LearnLargest bool
	MaxQueue     int
	Width        int
	Most         int  // instances of one decision
	Fixed        bool // coefficients were given
	Coefficients []float64
	Types        []learned

	Now       dispatch.Time
	Timer     dispatch.Time // set and not yet fired
	Earliest  dispatch.Time // no later than any deadline of waiting
	Uneven    bool          // some of waiting have other deadlines than the objective gives them
	Worst     dispatch.Time // the longest that any of waiting was expected to take on the base
	Waiting   []dispatch.Request
	Instances []instance // by ExecutorID
	Up        []dispatch.ExecutorID
	soonest   []dispatch.ExecutorID `json:"-"` // that a decision looks at
	Idle      int

	solver  Assignment           `json:"-"`
	cost    []int64              `json:"-"`
	latency [][]dispatch.Time    `json:"-"` // by type and place among the candidates
	first   []dispatch.Time      `json:"-"` // by type: when an instance is first free
	batches []dispatch.RequestID `json:"-"`
	started []bool               `json:"-"`
}

// instance is one executor.
type instance struct {
	Group int32
	Up    bool
	Busy  bool
	Size  int32 // that it serves now
	Since dispatch.Time
	Until dispatch.Time // predicted
}

func (p *matching) Name() string { return "matching" }

func (p *matching) Len() int { return len(p.Waiting) }

func (p *matching) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.Now = max(p.Now, now)
	p.batches = p.batches[:0]
	switch ev.Kind {
	case dispatch.Arrive:
		if len(p.Waiting) >= p.MaxQueue {
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
		p.Timer = never
	}
	if p.Idle > 0 || p.Now >= p.Earliest || ev.Kind == dispatch.ExecutorGone {
		out = p.decide(out)
	}
	return p.wake(out)
}

// arrive keeps the queue in the order of arrivals.
func (p *matching) arrive(r dispatch.Request) {
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + p.SLO
	}
	r.Size = max(1, r.Size)
	if p.LearnLargest {
		p.Largest = max(p.Largest, r.Size)
	}
	p.Earliest = min(p.Earliest, r.Deadline)
	if len(p.Waiting) == 0 {
		p.Uneven, p.Worst = false, 0
	}
	p.Uneven = p.Uneven || r.Deadline != r.Arrival+p.SLO
	p.Worst = max(p.Worst, p.expect(int(p.Base), r.Size))
	i := len(p.Waiting)
	for i > 0 && p.Waiting[i-1].Arrival > r.Arrival {
		i--
	}
	p.Waiting = slices.Insert(p.Waiting, i, r)
}

func (p *matching) cancel(id dispatch.RequestID) {
	if i := slices.IndexFunc(p.Waiting, func(r dispatch.Request) bool { return r.ID == id }); i >= 0 {
		p.Waiting = slices.Delete(p.Waiting, i, i+1)
	}
}

func (p *matching) join(id dispatch.ExecutorID, group int32) {
	if id < 0 || group < 0 || int(group) >= len(p.Types) {
		return
	}
	for int(id) >= len(p.Instances) {
		p.Instances = append(p.Instances, instance{})
	}
	x := &p.Instances[id]
	if x.Up {
		return
	}
	*x = instance{Group: group, Up: true}
	p.Up = append(p.Up, id)
	slices.Sort(p.Up)
	p.Idle++
}

func (p *matching) free(id dispatch.ExecutorID) {
	x := p.instance(id)
	if x == nil || !x.Busy {
		return
	}
	p.Types[x.Group].learn(x.Size, p.Now-x.Since)
	p.Worst = max(p.Worst, p.expect(int(p.Base), x.Size))
	x.Busy = false
	p.Idle++
}

func (p *matching) leave(id dispatch.ExecutorID) {
	x := p.instance(id)
	if x == nil {
		return
	}
	if !x.Busy {
		p.Idle--
	}
	*x = instance{}
	p.Up = slices.DeleteFunc(p.Up, func(other dispatch.ExecutorID) bool { return other == id })
}

// instance is the executor of that name, nil where it is not up.
func (p *matching) instance(id dispatch.ExecutorID) *instance {
	if id < 0 || int(id) >= len(p.Instances) || !p.Instances[id].Up {
		return nil
	}
	return &p.Instances[id]
}

// wake sets a timer at the earliest deadline, so that a query is dropped in time even where
// no instance ever frees.
func (p *matching) wake(out []dispatch.Action) []dispatch.Action {
	if len(p.Waiting) == 0 || p.Earliest == never || p.Earliest == p.Timer {
		return out
	}
	p.Timer = p.Earliest
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.Timer})
}
