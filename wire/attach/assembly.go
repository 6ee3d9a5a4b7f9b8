package attach

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// AssemblyPatience is how long the first part of a batch waits for the others: gateways send
// theirs within a round trip, so that one that takes longer has failed.
const AssemblyPatience = 100 * time.Millisecond

// joints have numbers that no gateway gives.
const joints = 1 << 63

// Assembly is that of one executor. The zero value is ready for use; all methods may
// be called from many goroutines at once.
type Assembly struct {
	mu       sync.Mutex
	epoch    uint64             // the highest that has been seen
	decides  map[uint64]*pieces // to dispatchers, by their epochs
	open     map[key]*joint
	running  map[uint64]*joint // by number
	numbered uint64
	ended    [memory]key // that ended last, so that parts that come too late are known
	next     int
	early    []report // to dispatchers that have not sent their epoch
}

// report is a message to the dispatcher with the epoch.
type report struct {
	epoch uint64
	*Message
}

// memory is how many ended batches an Assembly remembers.
const memory = 64

type key struct{ epoch, batch uint64 }

// joint is a batch of parts and what has come of it.
type joint struct {
	key
	number uint64
	parts  []part
	absent []int
	want   int // parts
	timer  *time.Timer
}

type part struct {
	from  *pieces
	batch *Batch
}

// Wrap joins a stream to a gateway or a dispatcher to the executor's others. Its
// messages but those of parts pass through.
func (a *Assembly) Wrap(s Stream) Stream { return &pieces{assembly: a, inner: s} }

// pieces is one that has been wrapped.
type pieces struct {
	assembly *Assembly
	inner    Stream

	mu      sync.Mutex // of sending
	reloads []*joint   // that came through it and have cost an engine; under Assembly.mu
}

func (s *pieces) Recv() (*Message, error) {
	for {
		m, err := s.inner.Recv()
		if err != nil {
			s.assembly.leave(s)
			return nil, err
		}
		switch {
		case m.Owner != nil:
			s.assembly.follow(s, m.Owner.Epoch)
		case m.Skip != nil:
			if b := s.assembly.skip(m.Skip.Part); b != nil {
				return &Message{Batch: b}, nil
			}
		case m.Batch != nil && m.Batch.Part.Parts > 0:
			if b := s.assembly.add(s, m.Batch); b != nil {
				return &Message{Batch: b}, nil
			}
		default:
			return m, nil
		}
	}
}

func (s *pieces) Send(m *Message) error {
	switch {
	case m.Result != nil && m.Result.ID >= joints:
		s.assembly.answer(s, m.Result)
		return nil
	case m.Soon != nil && m.Soon.ID >= joints:
		s.assembly.soon(m.Soon)
		return nil
	case m.Ready != nil && s.assembly.ready(s):
		return nil
	}
	return s.send(m)
}

func (s *pieces) send(m *Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Send(m)
}

func (s *pieces) Close() error { return s.inner.Close() }

// follow follows the dispatcher with the highest epoch. Those of lower ones still receive the
// ends of their batches.
func (a *Assembly) follow(s *pieces, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decides == nil {
		a.decides = make(map[uint64]*pieces)
	}
	a.decides[epoch], a.epoch = s, max(a.epoch, epoch)
	for _, r := range a.early {
		if r.epoch == epoch {
			_ = s.send(r.Message)
		}
	}
	a.early = slices.DeleteFunc(a.early, func(r report) bool { return r.epoch == epoch })
	a.reportHigher()
}

// reportHigher reports the epoch of a dispatcher that is gone to the one with the highest epoch
// of those that are left: gateways may never have seen that epoch, so that no dispatcher would
// decide by one that is high enough here. The lock is held.
func (a *Assembly) reportHigher() {
	if a.decides[a.epoch] != nil || len(a.decides) == 0 {
		return
	}
	left := slices.Max(slices.Collect(maps.Keys(a.decides)))
	_ = a.decides[left].send(&Message{Owner: &Owner{Epoch: a.epoch}})
}

// leave forgets a stream that has ended.
func (a *Assembly) leave(s *pieces) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.decides)
	maps.DeleteFunc(a.decides, func(_ uint64, of *pieces) bool { return of == s })
	if len(a.decides) < n {
		a.reportHigher()
	}
}

// of finds or makes the joint batch of a part; nil where it has ended or is obsolete. The
// lock is held.
func (a *Assembly) of(p Part) *joint {
	k := key{p.Epoch, p.Batch}
	if p.Epoch < a.epoch || slices.Contains(a.ended[:], k) {
		return nil
	}
	a.epoch = max(a.epoch, p.Epoch)
	w := a.open[k]
	if w == nil {
		w = &joint{key: k, want: p.Parts}
		if a.open == nil {
			a.open = make(map[key]*joint)
		}
		a.open[k] = w
	}
	return w
}

// add takes a part in and returns the joint batch once it is complete.
func (a *Assembly) add(s *pieces, b *Batch) *Batch {
	a.mu.Lock()
	w := a.of(b.Part)
	if w == nil || w.number != 0 {
		if b.Part.Epoch < a.epoch {
			a.report(&Done{Epoch: b.Part.Epoch, Batch: b.Part.Batch, Failed: len(b.Items)})
		}
		a.mu.Unlock()
		refuse(s, b)
		return nil
	}
	defer a.mu.Unlock()
	w.parts = append(w.parts, part{from: s, batch: b})
	return a.complete(w)
}

// refuse answers a part that is not computed.
func refuse(s *pieces, b *Batch) {
	if len(b.Items) == 0 {
		return
	}
	err := wire.Errorf(wire.CodeUnavailable, "", "its part of a batch came too late, or by order of a dispatcher that has been replaced")
	_ = s.send(&Message{Result: &Result{ID: b.ID, Err: err, Untouched: true}})
}

// skip notes that a part will not come.
func (a *Assembly) skip(p Part) *Batch {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.of(p)
	if w == nil && p.Epoch < a.epoch && a.open[key{p.Epoch, p.Batch}] == nil {
		// Its dispatcher may own the service again by now, and waits for the end.
		a.report(&Done{Epoch: p.Epoch, Batch: p.Batch})
	}
	if w == nil || w.number != 0 || slices.ContainsFunc(w.parts, func(of part) bool { return of.batch.Part.Part == p.Part }) {
		return nil
	}
	if !slices.Contains(w.absent, p.Part) {
		w.absent = append(w.absent, p.Part)
	}
	return a.complete(w)
}

// complete begins the joint batch if nothing of it is missing. The lock is held.
func (a *Assembly) complete(w *joint) *Batch {
	if len(w.parts)+len(w.absent) >= w.want {
		return a.begin(w)
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(AssemblyPatience, func() { a.expire(w) })
	}
	return nil
}

// expire begins a joint batch whose parts have not all come.
func (a *Assembly) expire(w *joint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[w.key] != w || w.number != 0 {
		return
	}
	b := a.begin(w)
	if b == nil {
		return
	}
	for _, p := range w.parts {
		if inject(p.from.inner, &Message{Batch: b}) {
			return
		}
	}
	a.end(w) // all senders of parts are gone
	a.report(&Done{Epoch: w.epoch, Batch: w.batch})
}

// begin makes the batch of an engine from it; nil where it has no items. The lock is held.
func (a *Assembly) begin(w *joint) *Batch {
	if w.timer != nil {
		w.timer.Stop()
	}
	n := 0
	for _, p := range w.parts {
		n += len(p.batch.Items)
	}
	if n == 0 {
		a.end(w)
		a.report(&Done{Epoch: w.epoch, Batch: w.batch})
		return nil
	}
	a.numbered++
	w.number = joints + a.numbered
	if a.running == nil {
		a.running = make(map[uint64]*joint)
	}
	a.running[w.number] = w
	b := &Batch{ID: w.number, Module: w.parts[0].batch.Module, Due: w.parts[0].batch.Due, Items: w.parts[0].batch.Items, Apart: w.parts[0].batch.Apart}
	if len(w.parts) > 1 {
		b.Items = make([][]wire.Tensor, 0, n)
		for _, p := range w.parts {
			b.Items = append(b.Items, p.batch.Items...)
			b.Apart = b.Apart || p.batch.Apart
			if p.batch.Due.Before(b.Due) {
				b.Due = p.batch.Due
			}
		}
	}
	return b
}

// end forgets a joint batch but for its key. The lock is held.
func (a *Assembly) end(w *joint) {
	delete(a.open, w.key)
	delete(a.running, w.number)
	a.ended[a.next] = w.key
	a.next = (a.next + 1) % memory
}

// report reports an end to its dispatcher. The lock is held.
func (a *Assembly) report(d *Done) { a.send(d.Epoch, &Message{Done: d}) }

// send sends a message to the dispatcher with the epoch. Parts of that epoch may arrive before
// its dispatcher's stream has it: then the message waits for that, although others may own the
// service meanwhile. The lock is held.
func (a *Assembly) send(epoch uint64, m *Message) {
	if to := a.decides[epoch]; to != nil {
		_ = to.send(m)
		return
	}
	if len(a.early) == memory { // it does not come
		a.early = slices.Delete(a.early, 0, 1)
	}
	a.early = append(a.early, report{epoch, m})
}

// soon notifies the dispatcher that a joint batch is about to end.
func (a *Assembly) soon(m *Soon) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.running[m.ID]; w != nil && a.decides[w.epoch] != nil {
		_ = a.decides[w.epoch].send(&Message{Soon: &Soon{ID: w.batch, Compute: m.Compute}})
	}
}

// answer takes the result of a joint batch apart.
func (a *Assembly) answer(s *pieces, r *Result) {
	a.mu.Lock()
	w := a.running[r.ID]
	if w == nil {
		a.mu.Unlock()
		return
	}
	a.end(w)
	if r.Away {
		s.reloads = append(s.reloads, w)
	}
	done := Done{Epoch: w.epoch, Batch: w.batch, Waited: r.Waited, Compute: r.Compute, Away: r.Away}
	rows := 0
	for _, p := range w.parts {
		rows += len(p.batch.Items)
	}
	done.Failed = failed(r, rows)
	a.report(&done)
	a.mu.Unlock()
	from := 0
	for _, p := range w.parts {
		n := len(p.batch.Items)
		if n > 0 {
			_ = p.from.send(&Message{Result: r.Cut(p.batch.ID, from, from+n)})
		}
		from += n
	}
}

func failed(r *Result, rows int) (n int) {
	if r.Err != nil {
		return rows
	}
	for _, err := range r.Errs {
		if err != nil {
			n++
		}
	}
	return n
}

// ready notifies all that had parts in the batch that the engine lost with it is back; false
// where the stream has no such batch.
func (a *Assembly) ready(s *pieces) bool {
	a.mu.Lock()
	if len(s.reloads) == 0 {
		a.mu.Unlock()
		return false
	}
	w := s.reloads[0]
	s.reloads = slices.Delete(s.reloads, 0, 1)
	m := &Message{Ready: &Ready{}}
	a.send(w.epoch, m)
	a.mu.Unlock()
	for _, p := range w.parts {
		if len(p.batch.Items) > 0 {
			_ = p.from.send(m)
		}
	}
	return true
}
