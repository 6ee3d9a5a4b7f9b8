package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// request is one call of a caller.
type request struct {
	id         int
	service    *service
	value      float32
	gateway    *gatewayProcess
	life       int // of the gateway
	start      time.Time
	budget     time.Duration // SLO, or the caller's if that is shorter
	generation int           // that the gateway served when it came
	cancelled  bool          // the caller has left
	lost       bool          // with its gateway
	whole      bool          // it came to a fleet that was whole, but for single faults
	probe      bool          // it must be answered in time
	film

	begun, ended int // as the gateway states
	over         time.Time
	outcome      gateway.Outcome
}

// history is what callers and the network have seen, and what is wrong with it.
type history struct {
	world *world

	mu         sync.Mutex
	requests   map[int]*request
	harmed     map[int]map[wire.Code]bool
	computed   map[string]int // by module and request
	killed     map[string]int // engines, by module and request
	outcomes   map[gateway.Outcome]int
	codes      map[wire.Code]int
	violations []string
	log        []string // the latest
	digest     uint64
	tally      tally
}

// tally counts what there was in a world.
type tally struct {
	requests int
	faults   int // of engines, processes, connections and what else was disturbed
	changes  int // of declarations

	digest uint64 // of one world's history
	same   int    // worlds that have gone the same way twice
}

func (t *tally) add(more tally) {
	t.requests += more.requests
	t.faults += more.faults
	t.changes += more.changes
}

func (h *history) fault() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.faults++
}

func (h *history) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.changes++
}

// counts are those of one life of a gateway; under the history's lock.
type counts struct{ accepted, finished int }

const logged = 4000

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	h.digest += hash(time.Since(h.world.began), text) // in whichever order, within an instant
	if !*story {
		return
	}
	h.log = append(h.log, fmt.Sprintf("%11.6f  ", time.Since(h.world.began).Seconds())+text)
	if len(h.log) > 2*logged {
		h.log = slices.Clone(h.log[logged:])
	}
}

func (h *history) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	h.note("VIOLATION %s", text)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.violations) < 20 {
		h.violations = append(h.violations, fmt.Sprintf("%.6f: %s", time.Since(h.world.began).Seconds(), text))
	}
}

// harm notes that an engine refuses a request by itself.
func (h *history) harm(ids []int, code wire.Code) {
	if len(ids) > 1 {
		return // each is tried alone then
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.harmed[ids[0]] == nil {
		h.harmed[ids[0]] = map[wire.Code]bool{}
	}
	h.harmed[ids[0]][code] = true
}

// kill notes that a request has crashed an engine; two are the most that one may of a module. Modules
// that it stands at together may each lose some.
func (h *history) kill(module string, id int) {
	h.mu.Lock()
	key := fmt.Sprint(module, "/", id)
	h.killed[key]++
	n := h.killed[key]
	h.mu.Unlock()
	if n > 2 {
		h.violate("request %d has killed %d engines, the last of %s", id, n, module)
	}
}

func (h *history) compute(module string, ids []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.computed[fmt.Sprint(module, "/", id)]++
	}
}

// observer is that of a gateway's life.
func (h *history) observer(life int, g *gatewayProcess, counts *counts) gateway.Observer {
	mine := func(id string) *request {
		var n int
		if _, err := fmt.Sscan(id, &n); err != nil {
			return nil
		}
		r := h.requests[n]
		if r == nil || r.gateway != g || r.life != life {
			return nil
		}
		return r
	}
	return gateway.Observer{
		RequestBegin: func(i gateway.RequestInfo) {
			h.mu.Lock()
			defer h.mu.Unlock()
			counts.accepted++
			if r := mine(i.ID); r != nil {
				r.begun++
			}
		},
		RequestEnd: func(i gateway.RequestInfo) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !i.Unaccepted {
				counts.finished++
			}
			if r := mine(i.ID); r != nil {
				r.ended++
				r.outcome = i.Outcome
				if i.Unaccepted == (r.begun > 0) {
					h.violations = append(h.violations, fmt.Sprintf("request %d: begun %d times, and its end has unaccepted: %v", r.id, r.begun, i.Unaccepted))
				}
			}
		},
	}
}

// forgotten is how long after its deadline a request that was lost on the way has not ended:
// gateways give it up a second after the deadline. One that waits, or is computed, is dropped
// or answered before, however an owner or a connection changes meanwhile.
const forgotten = 500 * time.Millisecond

// answered checks the end of a call.
func (h *history) answered(r *request, response *wire.InferResponse, err *wire.Error) {
	now := time.Now()
	took := now.Sub(r.start)
	h.mu.Lock()
	r.over = now
	lost := r.lost
	begun, ended, outcome := r.begun, r.ended, r.outcome
	harmed := maps.Clone(h.harmed[r.id])
	if !lost {
		h.outcomes[outcome]++
	}
	if err != nil && !lost {
		h.codes[err.Code]++
	}
	h.mu.Unlock()
	if lost {
		return
	}
	wrong := func(format string, args ...any) {
		h.violate("request %d of %s by %s after %v: %s", r.id, r.service.name, r.gateway.name, took, fmt.Sprintf(format, args...))
	}
	switch {
	case err != nil && err.Code == wire.CodeNotFound && ended == 0: // unknown names reach no observer
	case ended != 1 || begun > 1:
		wrong("it has begun %d times and ended %d times", begun, ended)
	}
	if took > r.budget+max(r.budget, time.Second)+time.Millisecond {
		wrong("it had %v", r.budget)
	}
	if took > r.budget+forgotten && (r.whole || h.world.faults.every == 0) {
		wrong("it had %v, and no process was stopped, and at most one connection cut or owner replaced", r.budget)
	}
	if err != nil {
		h.refused(r, err, harmed, wrong)
		return
	}
	if r.service.films {
		if v, err := response.Outputs[1].Float32s(); err != nil || len(v) != 3 || (v[0] == 0) != (v[1] == 0) || response.Fresh != (v[0] == 0) {
			wrong("answered after state %v, fresh %v", v, response.Fresh)
		} else {
			h.mu.Lock()
			r.before, r.place, r.answered, r.version = int(v[0]), 1-int(v[1]), response.Generation, int(v[2])
			h.mu.Unlock()
		}
	}
	v, bad := response.Outputs[0].Float32s()
	want, known := r.service.answer(response.Generation, r.value)
	switch {
	case bad != nil || len(v) != 2:
		wrong("answered %v, %v", v, bad)
	case !known:
		wrong("answered by generation %d, which was never installed", response.Generation)
	case int(v[1]) != r.id:
		wrong("got the answer to request %v", v[1])
	case v[0] != want:
		wrong("answered %v and not %v by generation %d", v[0], want, response.Generation)
	case r.service.age(response.Generation).Before(r.service.age(r.generation)):
		wrong("answered by generation %d after %d was installed", response.Generation, r.generation)
	case took > r.budget && outcome == gateway.Completed:
		wrong("counted as in time, but it had %v", r.budget)
	case took <= r.budget && outcome == gateway.Late:
		wrong("counted as late, but it had %v", r.budget)
	}
	if r.probe && outcome != gateway.Completed {
		wrong("ended %v, although all is well", outcome)
	}
}

// refused checks that an error can be.
func (h *history) refused(r *request, err *wire.Error, harmed map[wire.Code]bool, wrong func(string, ...any)) {
	h.note("request %d by %s: %v", r.id, r.gateway.name, err)
	if r.probe {
		wrong("refused, although all is well: %v", err)
		return
	}
	switch err.Code {
	case wire.CodeDeadline, wire.CodeOverloaded:
	case wire.CodeCanceled:
		if !r.cancelled {
			wrong("%v, but its caller has not left", err)
		}
	case wire.CodeUnavailable:
		if h.world.faults.none() {
			wrong("%v, but nothing is wrong", err)
		}
	case wire.CodeNotFound:
		if !h.world.deletes {
			wrong("%v, but nothing was deleted", err)
		}
	default:
		if harmed[err.Code] {
			return
		}
		if err.Code != wire.CodeInvalid || !r.service.kinds || !strings.HasSuffix(r.Stream, fmt.Sprint(anyKind)) {
			wrong("%v, but no engine has returned that, and its kind is that of all frames of its stream", err)
		}
		h.mu.Lock()
		r.otherKind = true
		h.mu.Unlock()
	}
}

// watch receives all messages of one stream of an executor.
type watch struct {
	history      *history
	executor, to string
	given        map[uint64]*attach.Batch // that have no result; under the history's lock
	stale        map[uint64]bool          // sent by an owner that was replaced
	drained      bool                     // the peer has let the executor go
	sent         map[string]uint64        // the highest epoch by which the peer was ordered to send; by service
}

func (h *history) watch(executor, to string) *watch {
	return &watch{history: h, executor: executor, to: to, given: map[uint64]*attach.Batch{}, stale: map[uint64]bool{}, sent: map[string]uint64{}}
}

// message notes one for the story.
func (h *history) message(from, to string, m *attach.Message) {
	switch {
	case m.Hello == nil && !*story:
	case m.Hello != nil:
		h.note("%s to %s: it is %s", from, to, m.Hello.Executor)
	case m.Batch != nil:
		h.note("%s to %s: batch %d of %d, %+v", from, to, m.Batch.ID, len(m.Batch.Items), m.Batch.Part)
	case m.Result != nil:
		h.note("%s to %s: result %d, away %v, untouched %v, error %v", from, to, m.Result.ID, m.Result.Away, m.Result.Untouched, m.Result.Err)
	case m.Owner != nil:
		h.note("%s to %s: owner %d", from, to, m.Owner.Epoch)
	case m.Skip != nil:
		h.note("%s to %s: skip %+v", from, to, m.Skip.Part)
	case m.Done != nil:
		h.note("%s to %s: done %+v", from, to, *m.Done)
	case m.Ready != nil:
		h.note("%s to %s: ready", from, to)
	case m.Soon != nil:
		h.note("%s to %s: soon %+v", from, to, *m.Soon)
	case m.Drain != nil:
		h.note("%s to %s: drain", from, to)
	}
}

// leaving sees what a gateway or a dispatcher sends.
func (w *watch) leaving(m *attach.Message) {
	w.history.message(w.to, w.executor, m)
	if m.Batch == nil {
		return
	}
	h := w.history
	now := time.Now()
	for _, inputs := range m.Batch.Items {
		for _, in := range inputs {
			v, _ := in.Float32s()
			h.mu.Lock()
			r := h.requests[int(v[1])]
			over := r != nil && !r.over.IsZero() && r.over.Before(now)
			var when time.Time
			if over {
				when = r.over
			}
			h.mu.Unlock()
			if over {
				h.violate("%s sends request %d to %s, which ended %v ago", w.to, int(v[1]), w.executor, now.Sub(when))
			}
		}
	}
	if e := m.Batch.Part.Epoch; m.Batch.Part.Parts > 0 && len(m.Batch.Items) > 0 { // without items it reports that nothing comes
		if e < w.sent[""] {
			h.violate("%s sends to %s by epoch %d after %d", w.to, w.executor, e, w.sent[""])
		}
		w.sent[""] = max(w.sent[""], e)
	}
}

// toExecutor sees what arrives there.
func (w *watch) toExecutor(m *attach.Message) {
	h := w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	epochs, now := h.world.epochs, time.Now()
	switch {
	case m.Drain != nil:
		w.drained = true
	case m.Owner != nil && !w.drained: // a peer that has let the executor go orders nothing of it
		epochs[w.executor] = append(epochs[w.executor], heardEpoch{m.Owner.Epoch, now})
	case m.Batch != nil && len(m.Batch.Items) > 0:
		b := m.Batch
		w.given[b.ID] = b
		// What comes over two connections at one instant may be read in any order.
		newer := func(e heardEpoch) bool { return e.epoch > b.Part.Epoch && e.at.Before(now) }
		if b.Part.Parts > 0 && slices.ContainsFunc(epochs[w.executor], newer) {
			w.stale[b.ID] = true
		}
	}
}

// fromExecutor sees what it has sent when that arrives.
func (w *watch) fromExecutor(m *attach.Message) {
	w.history.message(w.executor, w.to, m)
	h := w.history
	if m.Result == nil {
		return
	}
	h.mu.Lock()
	b := w.given[m.Result.ID]
	delete(w.given, m.Result.ID)
	stale := w.stale[m.Result.ID]
	h.mu.Unlock()
	switch {
	case b == nil:
		h.violate("%s answers batch %d of %s, which it does not have", w.executor, m.Result.ID, w.to)
	case stale && m.Result.Items != nil:
		h.violate("%s has computed batch %d of %s by order of an owner that was replaced", w.executor, m.Result.ID, w.to)
	}
}
