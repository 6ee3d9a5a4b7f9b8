package shared

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// adaptive is Harpagon's own policy for a cluster: see NewAdaptive.
type adaptive struct {
	base
	Ready         dispatch.Agenda // models that take any open executor, by the last instant to start
	Held          dispatch.Agenda // the others with requests, likewise
	Need          []float64
	Needed        float64   // executors that all models need together, by their rates
	Losses        losses    // of all models together
	MeanBatchTime float64   // smoothed duration of batches
	lookahead     lookahead `json:"-"`
}

// The constants of the policy, beside those of lookahead. What each of them is for is worth goodput:
// docs/results/dispatching.md has the table, on settings that none was fitted to.
const (
	// A batch starts early when it holds
	//
	//	target - startCluster·√(target/(executors + startFew))
	//
	// requests, less startIdle of the target where all idle, or startBeta·beta·lambda; startMany·beta·lambda for one
	// among many models where executors are scarce and few. For one that keeps an executor busy where the cluster frees
	// another while one more request runs, the former alone counts: a batch that waits for the request still finds an
	// executor then. Where executors are scarce it is less for those that batching gains little, since the others are
	// not idle meanwhile.
	startCluster = 1.95
	startFew     = 2.0
	startIdle    = 0.85
	startBeta    = 1.6
	startMany    = 0.5
	startScarce  = 0.6 // executors that all models need, as a share of the cluster, from which on they are scarce
	manyShare    = 3.5 // executors of which a model is given one, from which on it is one among many
	aloneWhole   = 0.5 // share of the time of a batch of one that is fixed, from which on batching gains all that it may

	// A first request stays if it allows a batch of that part of the target, or less where batching gains little.
	keepFull      = 0.8
	sparedWhole   = 0.1  // share of a batch's time that is fixed, up to which fewer requests are given up for larger batches
	overloadWhole = 0.03 // of all requests are lost, from which on as many go as if batching gained most

	guardShare        = 0.3  // of the time between two executors that an urgent batch should have to find one
	meanBatchTimeStep = 0.05 // weight of a new batch in the typical duration

	fairMemory = 2000.0 // requests of a model over which its losses fade
	fairBegin  = 100.0  // requests of a model that count as served before any was seen
	fairAhead  = 10.0   // share of the time that a model can wait by which it goes ahead, for each share of requests lost more than by all

	pauseGaps   = 10.0                  // mean gaps without a request until it is taken that none comes soon
	resumeLeast = 50 * time.Millisecond // a pause that leaves nothing of the rate, at least
)

// NewAdaptive builds Harpagon's own policy, the default for a cluster: it
// holds batches back as Symphony does, but by what the whole cluster has before
// it.
//
//   - Every model has a target batch: what it collects at its rate when it is
//     held as long as the deadline allows, l(b) + (b-1)/rate = SLO. Where the
//     cluster is too small for all rates, its share of the cluster sets the rate. On
//     n executors near their capacity this is the staggered batch of Symphony's
//     equation 2.
//   - A batch that could not take in one more request starts on any free
//     executor. Where all are busy and a batch takes hardly longer for one more
//     request, it counts as such earlier, so that it is in line for the next
//     executor before it is too late.
//   - It starts earlier if it is full enough: with less of its target in a small
//     cluster, whose executors run dry and clog by turns, and the more executors
//     idle, because idle time cannot be saved up. Past a multiple of beta·lambda
//     requests it does not wait, past a third of it where executors are scarce and few and it
//     is one of many models, unless executors become free so often that waiting costs nothing.
//     Of several models the one with the least time left goes first.
//   - It does not wait for what is not expected: when the stream has paused, the
//     batch starts on any executor that idles, and what comes then is not taken to
//     come at the rate of before.
//   - Requests are given up only when an executor is granted, when most is
//     known. Those go that would hold the batch far below its target though
//     enough others wait. So a burst costs its oldest requests and not the size of the
//     batches behind it, and under overload batches stay near the target. What that gains
//     are larger batches, which gain no more than the part of a batch's time that is
//     fixed: where it is little, no request is given up that could still be served,
//     unless many are lost anyhow. In a small cluster how many go is
//     found by playing the next turns, since it is known when its executors
//     will be free (see lookahead).
//   - A model that has lately lost more of its requests than all together goes
//     before others.
func NewAdaptive(o Options) dispatch.Policy { return newAdaptive(o) }

func newAdaptive(o Options) *adaptive {
	p := &adaptive{base: newBase(o)}
	n := len(p.Models)
	p.Ready, p.Held = dispatch.NewAgenda(n), dispatch.NewAgenda(n)
	p.Need = make([]float64, n)
	for i := range p.Models {
		p.aim(int32(i))
	}
	p.Fleet.Lead = p.lead()
	return p
}

// Name is "adaptive".
func (p *adaptive) Name() string { return "adaptive" }

// Describe draws the policy for logs and golden transcripts.
func (p *adaptive) Describe() string { return p.describe("adaptive") }

// Step takes one event and appends the actions that follow from it.
func (p *adaptive) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.begin(now, &ev)
	switch ev.Kind {
	case dispatch.Arrive:
		out = p.arrive(&ev.Request, out)
	case dispatch.Cancel:
		if class := p.cancel(&ev.Request); class >= 0 {
			p.refresh(class)
		}
	default:
		p.change(&ev)
		for len(p.Parked) > 0 {
			p.refresh(p.unpark())
		}
	}
	for p.Wakes.Next() <= p.Now {
		p.refresh(p.Wakes.Top())
	}
	for p.Fleet.Opens > 0 {
		class := p.choose()
		if class < 0 {
			break
		}
		out = p.grant(class, out)
	}
	return p.arm(p.Wakes.Next(), p.settle(out))
}

func (p *adaptive) arrive(r *dispatch.Request, out []dispatch.Action) []dispatch.Action {
	out, ok := p.admit(r, out)
	if r.Class < 0 || int(r.Class) >= len(p.Models) {
		return out
	}
	m := &p.Models[r.Class]
	resumed := m.resumes(p.Now)
	if resumed {
		m.Meter.Resume(p.Now, p.Now-m.Last)
	}
	m.Last = p.Now
	if m.Meter.Hit(p.Now) || resumed {
		p.aim(r.Class)
	}
	if ok {
		p.refresh(r.Class)
	}
	return out
}

// aim sets the target batch of a model by its rate and its share of the cluster.
func (p *adaptive) aim(class int32) {
	m := &p.Models[class]
	budget := m.SLO - p.Margin
	if !m.Meter.Known() {
		m.Target = half(m.Plan, p.Delay, budget)
		m.Aim = float64(m.Target)
		m.weigh()
		return
	}
	rate := m.Meter.Rate
	if up := float64(p.Fleet.Up); up > 0 && p.Needed > up {
		rate *= up / p.Needed
	}
	m.Aim = held(m.Plan, p.Delay, budget, rate)
	m.Target = int(math.Round(m.Aim))
	m.weigh()
	need := m.Meter.Rate * float64(m.Plan.of(m.Target)) / 1e9 / float64(m.Target)
	p.Needed += need - p.Need[class]
	p.Need[class] = need
	if class == 0 { // now and then again, so that no rounding adds up
		p.Needed = 0
		for _, n := range p.Need {
			p.Needed += n
		}
	}
}

// weigh works out what larger batches gain: the part of the target batch's time that is fixed.
func (m *modelState) weigh() {
	x := max(2, m.Target)
	alone, full := float64(m.Plan.of(1)), float64(m.Plan.of(m.Target))
	each := (float64(m.Plan.of(x)) - alone) / float64(x-1)
	fixed := max(0, alone-each)
	m.Fixed, m.Often = fixed/1e9, each/full
	m.Alone = min(1, fixed/alone/aloneWhole)
	m.Alone *= m.Alone
	m.Spared = min(1, fixed/full/sparedWhole)
}

// pause is how long nothing comes at the model's rate once its stream has paused. Of Poisson arrivals that errs once
// in e^pauseGaps requests.
func (m *modelState) pause() dispatch.Time {
	if m.Last == 0 || m.Meter.Rate <= 0 {
		return never / 4
	}
	return dispatch.Time(min(float64(never/4), pauseGaps/m.Meter.Rate*1e9))
}

// resumes reports whether an arrival at that instant is the first after a pause that voids
// the measured rate: twice pause(), since a false alarm costs more here.
func (m *modelState) resumes(now dispatch.Time) bool {
	return now-m.Last >= resumeLeast && now-m.Last >= 2*m.pause()
}

// refresh notes how full the batch of a model is and when it becomes urgent.
func (p *adaptive) refresh(class int32) {
	q, m := &p.Lines[class], &p.Models[class]
	waited := q.N
	p.dropLate(class)
	p.count(class, waited-q.N, 1)
	if q.N == 0 {
		p.Wakes.Drop(class)
		p.Ready.Drop(class)
		p.Held.Drop(class)
		return
	}
	s := p.planned(class)
	c, all := whole(q, &s)
	if !all {
		c = cutWindow(q, &s, p.keep(class))
	}
	if c.size == 0 { // only a faster group can serve what is left
		c = cut{drop: q.N - 1, size: 1}
	}
	due := q.due(c.drop)
	last := due - m.Plan.of(c.size) - p.Delay.Of(c.size)
	at := due - m.Plan.of(c.size+1) - p.Delay.Of(c.size+1)
	at -= p.guard(last-at) + p.early(class)
	ahead := p.ahead(class)
	at -= ahead
	m.Size = c.size
	switch paused := m.Last + m.pause(); {
	case last < p.Now: // only a faster group can still serve it
		p.Wakes.Set(class, q.due(0)-m.Least+1)
	case at <= p.Now || c.size >= len(m.Plan):
		p.Wakes.Set(class, last+1)
	case p.Now < paused && !p.full(class, c.size):
		p.Wakes.Set(class, min(at, paused))
		p.Ready.Drop(class)
		p.Held.Set(class, last-ahead)
		return
	default:
		p.Wakes.Set(class, at)
	}
	p.Ready.Set(class, last-ahead)
	p.Held.Drop(class)
}

// guard is how much earlier a batch becomes urgent while no executor is open:
// the time until one should be, and those that are before it in line, beyond
// the time that it has anyway once it is urgent.
func (p *adaptive) guard(slack dispatch.Time) dispatch.Time {
	if p.Fleet.Opens > 0 || p.MeanBatchTime == 0 {
		return 0
	}
	wait := dispatch.Time(p.MeanBatchTime / float64(max(1, p.Fleet.Up)) * (guardShare + float64(p.Ready.Len())))
	return max(0, wait-slack)
}

// full reports whether a batch of the model may start before it has to.
func (p *adaptive) full(class int32, size int) bool {
	m, up := &p.Models[class], float64(max(1, p.Fleet.Up))
	idle := float64(max(0, p.Fleet.Opens-1)) / up
	enough := m.Aim*(1-startIdle*idle) - startCluster*math.Sqrt(m.Aim/(up+startFew))
	scarce, need := p.Needed >= startScarce*up, p.Need[class]*min(1, up/p.Needed)
	switch beta := startBeta; {
	case need < 1 || m.Often*up < 1:
		if scarce && p.Fleet.Up <= lookaheadDevices && p.amongMany(class) {
			beta = startMany
		}
		enough = min(enough, beta*m.Fixed*m.Meter.Rate)
	case scarce:
		enough *= m.Alone
	}
	return float64(size) >= enough
}

// keep is the least batch, in requests, that a first request must allow to be
// kept when there are enough others. Where many are lost larger batches serve
// more of them, even where batching gains little.
func (p *adaptive) keep(class int32) int {
	m := &p.Models[class]
	spared := m.Spared + (1-m.Spared)*min(1, p.lost()/overloadWhole)
	return max(1, int(m.Aim*keepFull*spared))
}

// choose finds the model that takes the next open executor, or -1 where it is
// better to wait.
func (p *adaptive) choose() int32 {
	if p.Ready.Len() > 0 {
		return p.Ready.Top()
	}
	if p.Held.Len() > 0 {
		if class := p.Held.Top(); p.full(class, p.Models[class].Size) {
			return class
		}
	}
	return -1
}

// grant gives an open executor to the model.
func (p *adaptive) grant(class int32, out []dispatch.Action) []dispatch.Action {
	q := &p.Lines[class]
	keep := p.keep(class)
	id, best := p.pick(class, func(s *offer) cut { return cutWindow(q, s, keep) })
	if best.size == 0 {
		p.Ready.Drop(class)
		p.Held.Drop(class)
		p.Parked = append(p.Parked, class)
		return out
	}
	s := p.offer(class, id)
	best = p.lookAhead(class, &s, best)
	if best.drop > 0 {
		p.count(class, best.drop, 1)
		p.dropFirst(class, best.drop)
	}
	before := p.Now
	p.count(class, best.size, 0)
	out = p.start(class, id, best.size, out)
	took := float64(p.Fleet.Execs[id].Free - before)
	if p.MeanBatchTime == 0 {
		p.MeanBatchTime = took
	}
	p.MeanBatchTime += (took - p.MeanBatchTime) * meanBatchTimeStep
	p.refresh(class)
	return out
}

// losses is the share of requests that were lately given up.
type losses struct{ Seen, Lost float64 } // fading sums

func (l *losses) add(n int, missed, memory float64) {
	fade := math.Exp(-float64(n) / memory)
	l.Seen, l.Lost = l.Seen*fade+float64(n), l.Lost*fade+float64(n)*missed
}

// share takes it that some requests, before any was seen, were served.
func (l *losses) share(served float64) float64 { return l.Lost / (l.Seen + served) }

// count notes that n requests of a model were given up (missed is 1) or start
// (0).
func (p *adaptive) count(class int32, n int, missed float64) {
	if n > 0 {
		p.Models[class].Losses.add(n, missed, fairMemory)
		p.Losses.add(n, missed, fairMemory*float64(len(p.Models)))
	}
}

// lost is the share of requests of all models together that were lately given up.
func (p *adaptive) lost() float64 { return p.Losses.share(fairBegin * float64(len(p.Models))) }

// ahead is by how much a model that has lately lost a larger share of its requests than all
// together is put before its deadline. Its batches are still formed by their deadlines.
//
// Goodput counts a load as borne when every model is served (Symphony, section
// 2.1). Without this, the order of deadlines lets models with long batches lose
// most: their last instant to start passes while shorter ones, due sooner, take
// every executor.
func (p *adaptive) ahead(class int32) dispatch.Time {
	m := &p.Models[class]
	if m.Losses.Lost == 0 {
		return 0
	}
	behind := m.Losses.share(fairBegin) - p.lost()
	return dispatch.Time(min(1, max(0, fairAhead*behind)) * float64(m.SLO-m.Plan[0]))
}
