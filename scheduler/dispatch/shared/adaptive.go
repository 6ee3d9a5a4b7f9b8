package shared

import (
	"math"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// adaptive is Harpagon's own policy for a cluster: see NewAdaptive.
type adaptive struct {
	base
	rules         adaptiveRules
	ready         dispatch.Agenda // models that take any open executor, by the last instant to start
	held          dispatch.Agenda // the others with requests, likewise
	need          []float64
	needed        float64   // executors that all models need together, by their rates
	losses        losses    // of all models together
	meanBatchTime float64   // smoothed duration of batches
	lookahead     lookahead `record:"-"`
}

// adaptiveRules are the constants of the policy. They were fitted by a random search over 18 simulated clusters of 1 to
// 256 executors and 1 to 300 models, the last three over 16 clusters of 2 to 16 executors and one model each; results
// are flat around them.
type adaptiveRules struct {
	// A batch starts early when it holds
	//
	//	target·(start - startIdle·(share that idles) + startLoad·load + slender·crowd) - startCluster·√(target/(executors + 2))
	//
	// requests, or startBeta·beta·lambda; down to startRare·beta·lambda for one among many models that needs about an executor,
	// the more the fewer executors there are and the less batching gains. For one that
	// keeps an executor busy where the cluster frees more than startIdlePressure executors while one more request runs, the
	// former alone counts: a batch that waits for the request still finds an executor then, and the others are not
	// idle meanwhile. It is less where batching gains little (see weigh), and is divided by
	//
	//	1 + startBursts·(crowding - 1)
	//
	// where requests come in bursts: others do idle between them, and more the more requests crowd.
	// Where executors are to spare (see scarce) a batch is not made smaller by startRare, nor by startBursts or by how
	// little batching gains.
	start, startCluster, startIdle, startLoad, startBeta, startRare, startIdlePressure, startBursts float64

	// A first request stays if it allows a batch of
	//
	//	keep + keepQueue·(line, in targets) + keepGap·gap
	//
	// of the target, or less where batching gains little (see weigh).
	keep, keepQueue, keepGap float64

	// Weights of the nearer and the farther half of the executors (see crowd), and the standard deviations by
	// which fewer requests are counted on than come on average (see rateMargin). All count less the more of
	// a batch's time is fixed.
	crowdNear, crowdFar, rateMargin float64
}

func tunedRules() adaptiveRules {
	return adaptiveRules{
		start: 0.927, startCluster: 1.95, startIdle: 0.85, startLoad: 0.0905, startBeta: 1.6, startRare: 0.5, startIdlePressure: 0.6, startBursts: 3,
		keep: 0.645, keepQueue: 0.052, keepGap: 0.089,
		crowdNear: 0.25, crowdFar: 0.25, rateMargin: 1.7,
	}
}

// Bounds of what adaptive looks at.
const (
	gapMost            = 4.0 // typical gaps between two free executors
	loadMost           = 1.5
	queueMost          = 3.0  // target batches
	keepRound          = 0.25 // requests, before the least batch is rounded down
	guardShare         = 0.3  // of the time between two executors, at least, that an urgent batch should have to find one
	startLeast         = 0.5  // of the target batch, however many executors idle
	fixedMost          = 0.45 // share of a batch's time that is fixed, from which on crowd and rateMargin do not count
	fixedKeep          = 0.1  // likewise, up to which fewer requests are given up for larger batches
	fixedHold          = 0.2  // likewise, up to which the rest of a burst is waited for less
	fixedAlone         = 0.5  // share of the time of a batch of one that is fixed, up to which less is held back
	rareLeast          = 0.5  // executors that a model needs of whose requests not all are waited for: so many
	rareMost           = 2.0  // to fewer than so many
	rareFew            = 8    // executors of a cluster up to which that counts whole
	idlePressureScarce = 0.8  // executors that all models need, as a share of the cluster, from which on idlePressure counts whole
	rareScarce         = 0.6  // likewise, startRare
	scarceOver         = 0.15 // of the cluster, by which they need less where neither counts
	crowdMost          = 1.0  // times that executors return later than in turns, beyond which it is all the same
	meanBatchTimeStep  = 0.05 // weight of a new batch in the typical duration
)

// Shares of the requests lost, of all models together: up to the former as few requests are given up as batching
// says, from the latter on as many as if batching gained most.
const overloadFrom, overloadWhole = 0.01, 0.03

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
//     idle, because idle time cannot be saved up; with more while the cluster has
//     much before it. Past a multiple of beta·lambda requests it does not
//     wait, past a third of it where one of many models needs about an executor and
//     there are few, or batching gains little, unless executors become free so often
//     that waiting costs nothing.
//     Of several models the one with the least time left goes first.
//   - In a small cluster it looks at when the executors return, and not only at how
//     much they have to do: it starts with less when the next are about to, and
//     with more when they are late.
//   - It does not start early in the middle of a burst: where requests come
//     closer together than at random, a batch that starts at once splits the
//     burst into small ones.
//   - What holding back and giving up gain are larger batches, and they gain no
//     more than the part of a batch's time that is fixed. Where that is little,
//     nothing is held back, not even in a burst, and no request is given up that
//     could still be served; unless executors are to spare, or many requests are
//     lost anyhow: then larger batches leave executors idle that can be given
//     back, or serve more.
//   - It does not wait for what is not expected: when the stream has paused, the
//     batch starts on any executor that idles, and what comes then is not taken to
//     come at the rate of before.
//   - Requests are given up only when an executor is granted, when most is
//     known. Those go that would hold the batch far below its target though
//     enough others wait; more of them when the line is long and the next
//     executor far off, because then small batches cost most. So a burst costs
//     its oldest requests and not the size of the batches behind it, and under
//     overload batches stay near the target. In a small cluster how many go is
//     found by playing the next turns, since it is known when its executors
//     will be free (see lookahead).
//   - A model that has lately lost more of its requests than all together gives
//     up fewer and goes before others, as long as not much is lost at all: what
//     the cluster can bear, it bears for every model (see adaptive.go).
func NewAdaptive(o Options) dispatch.Policy { return newAdaptive(o, tunedRules()) }

func newAdaptive(o Options, r adaptiveRules) *adaptive {
	p := &adaptive{base: newBase(o), rules: r}
	n := len(p.models)
	p.ready, p.held = dispatch.NewAgenda(n), dispatch.NewAgenda(n)
	p.need = make([]float64, n)
	for i := range p.models {
		m := &p.models[i]
		m.burst = newBurst(m.slo - m.tables[0][0])
		p.aim(int32(i))
	}
	p.fleet.Lead = p.lead()
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
		for len(p.parked) > 0 {
			p.refresh(p.unpark())
		}
	}
	for p.wakes.Next() <= p.now {
		p.refresh(p.wakes.Top())
	}
	for p.fleet.Opens > 0 {
		class := p.choose()
		if class < 0 {
			break
		}
		out = p.grant(class, out)
	}
	return p.arm(p.wakes.Next(), p.settle(out))
}

func (p *adaptive) arrive(r *dispatch.Request, out []dispatch.Action) []dispatch.Action {
	out, ok := p.admit(r, out)
	if r.Class < 0 || int(r.Class) >= len(p.models) {
		return out
	}
	m := &p.models[r.Class]
	resumed := m.burst.resumes(p.now, m.meter.Rate)
	if resumed {
		m.meter.Resume(p.now, p.now-m.burst.last)
	}
	m.burst.hit(p.now)
	if m.meter.Hit(p.now) || resumed {
		p.aim(r.Class)
	}
	if ok {
		p.refresh(r.Class)
	}
	return out
}

// aim sets the target batch of a model by its rate and its share of the cluster.
func (p *adaptive) aim(class int32) {
	m := &p.models[class]
	budget := m.slo - p.margin
	if !m.meter.Known() {
		m.target = half(m.plan, p.delay, budget)
		m.aim = float64(m.target)
		m.weigh()
		return
	}
	rate := m.meter.Rate
	if up := float64(p.fleet.Up); up > 0 && p.needed > up {
		rate *= up / p.needed
	}
	m.aim = held(m.plan, p.delay, budget, rate)
	m.target = int(math.Round(m.aim))
	m.weigh()
	need := m.meter.Rate * float64(m.plan.of(m.target)) / 1e9 / float64(m.target)
	p.needed += need - p.need[class]
	p.need[class] = need
	if class == 0 { // now and then anew, so that no rounding adds up
		p.needed = 0
		for _, n := range p.need {
			p.needed += n
		}
	}
}

// weigh works out what larger batches gain: the part of the target batch's time that is fixed.
func (m *modelState) weigh() {
	x := max(2, m.target)
	each := float64(m.plan.of(x)-m.plan.of(1)) / float64(x-1)
	m.fixed = max(0, float64(m.plan.of(1))-each) / 1e9
	full := float64(m.plan.of(m.target))
	share := m.fixed * 1e9 / full
	m.often = each / full
	m.alone = part(m.fixed*1e9/float64(m.plan.of(1)), fixedAlone)
	m.alone *= m.alone
	m.slender = 1 - part(share, fixedMost)
	m.spared = part(share, fixedKeep)
	m.gains = part(share, fixedHold)
	m.gains *= m.gains
}

// part is how much of what counts whole from there on counts.
func part(share, whole float64) float64 { return min(1, share/whole) }

// refresh notes how full the batch of a model is and when it becomes urgent.
func (p *adaptive) refresh(class int32) {
	q, m := &p.lines[class], &p.models[class]
	waited := q.n
	p.dropLate(class)
	p.count(class, waited-q.n, 1)
	if q.n == 0 {
		p.wakes.Drop(class)
		p.ready.Drop(class)
		p.held.Drop(class)
		return
	}
	s := p.planned(class)
	c, all := whole(q, &s)
	if !all {
		c = cutWindow(q, &s, p.keep(class))
	}
	if c.size == 0 { // only a faster group can serve what is left
		c = cut{drop: q.n - 1, size: 1}
	}
	due := q.due(c.drop)
	last := due - m.plan.of(c.size) - p.delay.Of(c.size)
	at := due - m.plan.of(c.size+1) - p.delay.Of(c.size+1)
	at -= p.guard(last-at) + p.early(class)
	ahead := p.ahead(class)
	at -= ahead
	m.size = c.size
	switch {
	case last < p.now: // only a faster group can still serve it
		p.wakes.Set(class, q.due(0)-m.least+1)
	case at <= p.now || c.size >= len(m.plan):
		p.wakes.Set(class, last+1)
	case m.burst.runs(p.now, m.gains):
		p.wakes.Set(class, min(at, m.burst.over(m.gains)))
		p.ready.Drop(class)
		p.held.Drop(class)
		return
	case !p.full(class, c.size) && !m.burst.paused(p.now, m.meter.Rate):
		p.wakes.Set(class, min(at, m.burst.look))
		p.ready.Drop(class)
		p.held.Set(class, last-ahead)
		return
	default:
		p.wakes.Set(class, at)
	}
	p.ready.Set(class, last-ahead)
	p.held.Drop(class)
}

// guard is how much earlier a batch becomes urgent while no executor is open:
// the time until one should be, and those that are before it in line, beyond
// the time that it has anyway once it is urgent.
func (p *adaptive) guard(slack dispatch.Time) dispatch.Time {
	if p.fleet.Opens > 0 || p.meanBatchTime == 0 {
		return 0
	}
	wait := dispatch.Time(p.meanBatchTime / float64(max(1, p.fleet.Up)) * (guardShare + float64(p.ready.Len())))
	return max(0, wait-slack)
}

// full reports whether a batch of the model may start before it has to. Most are far too small,
// which is seen without working out what is enough.
func (p *adaptive) full(class int32, size int) bool {
	m := &p.models[class]
	if float64(size) < min(startLeast*m.aim*p.idlePressure(m), p.rules.startRare*m.fixed*m.meter.Rate) {
		return false
	}
	return float64(size) >= p.enough(class)
}

// enough is the batch of the model that may start before it has to.
func (p *adaptive) enough(class int32) float64 {
	m, r := &p.models[class], &p.rules
	up := float64(max(1, p.fleet.Up))
	idle := float64(max(0, p.fleet.Opens-1)) / up
	share := r.start - r.startIdle*idle + r.startLoad*p.load()
	if m.slender > 0 {
		share += m.slender * p.crowd()
	}
	b := m.aim*share - r.startCluster*math.Sqrt(m.aim/(up+2))
	b = max(b, startLeast*m.aim)
	need := p.need[class] * min(1, up/p.needed)
	if need >= 1 && m.often*up > r.startIdlePressure {
		return b * p.idlePressure(m)
	}
	beta := r.startBeta
	if need >= rareLeast && need < rareMost && p.amongMany(class) {
		beta -= (r.startBeta - r.startRare) * max(m.slender, min(1, rareFew/up)) * p.scarce(rareScarce)
	}
	return min(b, beta*m.fixed*m.meter.Rate)
}

// idlePressure is the part of a batch that waiting for costs nothing where executors become free all the
// time and few are to spare.
func (p *adaptive) idlePressure(m *modelState) float64 {
	return 1 - (1-m.alone/(1+p.rules.startBursts*m.burst.excess))*p.scarce(idlePressureScarce)
}

// scarce is 1 where the models need that share of the executors or more, and nothing where they need scarceOver
// less. Where executors are to spare, batches that start sooner, and are smaller, serve no more requests: they
// only keep executors busy that could be given back.
func (p *adaptive) scarce(whole float64) float64 {
	need := p.needed / float64(max(1, p.fleet.Up))
	return min(1, max(0, 1-(whole-need)/scarceOver))
}

// load is the work that the executors still have before them, as a share of
// what they have when all take turns at the typical batch: 1 in a busy cluster.
func (p *adaptive) load() float64 {
	if p.meanBatchTime == 0 || p.fleet.Up < 2 {
		return 1
	}
	return min(loadMost, p.fleet.Work(p.now)/(p.meanBatchTime*float64(p.fleet.Up-1)/2))
}

// crowd is by how much more of its target a batch in a small cluster should hold because the executors
// become free later than if they took turns; less than 0 where sooner. It compares the times until
// they are free, added up over the nearer half of them and over the others, with those of turns.
// Their work, which load counts, does not tell when they return: a batch that starts just before
// several do takes requests from theirs, and one that waits for more delays all of them.
func (p *adaptive) crowd() float64 {
	if p.meanBatchTime == 0 || p.fleet.Up < 2 || p.fleet.Up > lookaheadDevices {
		return 0
	}
	ends := p.lookahead.soonest(&p.fleet, p.now)
	half, turn := (len(ends)+1)/2, p.meanBatchTime/float64(len(ends))
	late := func(from, to int) float64 {
		is, turns := 0.0, 0.0
		for i := from; i < to; i++ {
			is += float64(ends[i] - p.now)
			turns += turn * float64(i)
		}
		if turns == 0 {
			return 0
		}
		return min(crowdMost, is/turns-1)
	}
	return p.rules.crowdNear*late(1, half) + p.rules.crowdFar*late(half, len(ends))
}

// gap is the time until the next executor is free, beside one that is, in
// typical gaps.
func (p *adaptive) gap() float64 {
	if p.meanBatchTime == 0 || p.fleet.Opens > 1 || p.fleet.Ends.Len() == 0 {
		return 0
	}
	g := float64(p.fleet.Ends.Next()-p.now) / p.meanBatchTime * float64(p.fleet.Up)
	return min(gapMost, max(0, g))
}

// keep is the least batch, in requests, that a first request must allow to be
// kept when there are enough others.
func (p *adaptive) keep(class int32) int {
	q, m, r := &p.lines[class], &p.models[class], &p.rules
	target := m.aim
	share := r.keep + r.keepQueue*min(queueMost, float64(q.n)/target) + r.keepGap*p.gap()
	share -= min(fairKeepMost, fairKeep*max(0, p.behind(class)))
	spared := m.spared + (1-m.spared)*p.overload()
	return max(1, int(target*share*spared+keepRound))
}

// overload is 0 while hardly more requests are lost than may be, and 1 where many are: larger batches then serve
// more of them, even where batching gains little.
func (p *adaptive) overload() float64 {
	return max(0, part(p.lost()-overloadFrom, overloadWhole-overloadFrom))
}

// choose finds the model that takes the next open executor, or -1 where it is
// better to wait.
func (p *adaptive) choose() int32 {
	if p.ready.Len() > 0 {
		return p.ready.Top()
	}
	if p.held.Len() > 0 {
		if class := p.held.Top(); p.full(class, p.models[class].size) {
			return class
		}
	}
	return -1
}

// grant gives an open executor to the model.
func (p *adaptive) grant(class int32, out []dispatch.Action) []dispatch.Action {
	q := &p.lines[class]
	keep := p.keep(class)
	id, best := p.pick(class, func(s *offer) cut { return cutWindow(q, s, keep) })
	if best.size == 0 {
		p.ready.Drop(class)
		p.held.Drop(class)
		p.parked = append(p.parked, class)
		return out
	}
	s := p.offer(class, id)
	best = p.lookAhead(class, &s, best)
	if best.drop > 0 {
		p.count(class, best.drop, 1)
		p.dropFirst(class, best.drop)
	}
	before := p.now
	p.count(class, best.size, 0)
	out = p.start(class, id, best.size, out)
	took := float64(p.fleet.Execs[id].Free - before)
	if p.meanBatchTime == 0 {
		p.meanBatchTime = took
	}
	p.meanBatchTime += (took - p.meanBatchTime) * meanBatchTimeStep
	p.refresh(class)
	return out
}

// How adaptive divides what is lost among models. Shares are of requests.
const (
	fairMemory   = 2000.0 // requests of a model over which its losses fade
	fairBegin    = 100.0  // requests of a model that count as served before any was seen
	fairEnds     = 0.1    // share lost of all requests from which on fairness gives way to serving most
	fairKeep     = 100.0  // share of the target batch that is kept less of, for each share lost more than by all
	fairKeepMost = 0.7
	fairAhead    = 10.0 // share of the time that a model can wait by which it goes ahead, likewise
	fairMost     = 0.3
)

// losses is the share of requests that were lately given up.
type losses struct{ seen, lost float64 } // fading sums

func (l *losses) add(n int, missed, memory float64) {
	fade := math.Exp(-float64(n) / memory)
	l.seen, l.lost = l.seen*fade+float64(n), l.lost*fade+float64(n)*missed
}

// share takes it that some requests, before any was seen, were served.
func (l *losses) share(served float64) float64 { return l.lost / (l.seen + served) }

// count notes that n requests of a model were given up (missed is 1) or start
// (0).
func (p *adaptive) count(class int32, n int, missed float64) {
	if n > 0 {
		p.models[class].losses.add(n, missed, fairMemory)
		p.losses.add(n, missed, fairMemory*float64(len(p.models)))
	}
}

// behind is by how much more of its requests the model has lately lost than all
// together; at most 0 where less. It fades to zero where so much is lost that no
// order could keep all: then whoever can be served best is served.
//
// Goodput counts a load as borne when every model is served (Symphony, section
// 2.1). Without this, the order of deadlines lets models with long batches lose
// most: their last instant to start passes while shorter ones, due sooner, take
// every executor.
func (p *adaptive) behind(class int32) float64 {
	if p.models[class].losses.lost == 0 {
		return 0
	}
	all := p.lost()
	return (p.models[class].losses.share(fairBegin) - all) * max(0, 1-all/fairEnds)
}

// lost is the share of requests of all models together that were lately given up.
func (p *adaptive) lost() float64 { return p.losses.share(fairBegin * float64(len(p.models))) }

// ahead is how much earlier than its deadline says a model goes. Its batches are
// formed by their deadlines all the same.
func (p *adaptive) ahead(class int32) dispatch.Time {
	m := &p.models[class]
	return dispatch.Time(min(fairMost, max(0, fairAhead*p.behind(class))) * float64(m.slo-m.plan[0]))
}
