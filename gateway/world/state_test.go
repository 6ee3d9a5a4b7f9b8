package world

import (
	"cmp"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/harpagon/harpagon/wire"
)

var (
	firstStreams = flag.Uint64("streams.first", 1, "the first seed of TestStreamSeeds")
	countStreams = flag.Int("streams", 25, "how many seeds TestStreamSeeds plays")
)

// TestStreamSeeds plays worlds of streams alone, of which a third as much time plays as many.
func TestStreamSeeds(t *testing.T) {
	var all tally
	began := time.Now()
	for seed := *firstStreams; seed < *firstStreams+uint64(*countStreams); seed++ {
		all.add(play(t, seed, drawStreams))
	}
	t.Logf("%d seeds from %d on: %d requests, %d faults, %d changes in %.1f s", *countStreams, *firstStreams, all.requests, all.faults, all.changes, time.Since(began).Seconds())
}

// drawStreams makes a world of a service whose requests are frames, with less after its faults.
func drawStreams(seed uint64, disk func() string) *world {
	w := draw(seed, disk)
	w.onlyStreams = true
	w.services = w.services[:1]
	w.services[0].films = true
	if w.hurried {
		w.trouble = 2 * time.Second
	}
	return w
}

// silent is how long a stream sends nothing before it is over.
const silent = 10 * time.Second

// film is what is known of a request as a frame. The state of a module is which frame left it, how many came
// up to that one, and the version of the network: what came with the frame is answered.
type film struct {
	wire.Frame
	before   int   // frame that left the state with which it was answered; 0 for none
	place    int   // of that, in its stream, from 1; 0 where this is not answered
	version  int   // of the network that answered it
	versions []int // of all that were given it, in vain or not
	answered int   // generation

	otherKind bool // it was refused, since its stream was open as one of another kind
}

// given notes the frames of a batch, and with which state each came: of a stream there is one at the most, and
// the state is of the network that computes.
func (h *history) given(module string, version int, ids []int, states [][]float32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range ids {
		x := h.requests[a]
		x.versions = append(x.versions, version)
		if s := states[i]; s[0] != 0 && int(s[2]) != version {
			h.violations = append(h.violations, "module "+module+" is given the state of another network")
		}
		for _, b := range ids[:i] {
			y := h.requests[b]
			if h.oneStream(x, y) && x.over.IsZero() && y.over.IsZero() {
				h.violations = append(h.violations, "module "+module+" is given two frames of a stream at once")
			}
		}
	}
}

// oneStream reports whether none begins from one frame to the other; under the history's lock.
func (h *history) oneStream(x, y *request) bool {
	if x.Stream == "" || x.Stream != y.Stream || x.gateway != y.gateway || x.life != y.life {
		return false
	}
	if y.start.Before(x.start) {
		x, y = y, x
	}
	for _, r := range h.requests {
		if r.Stream == x.Stream && r.service == x.service && (r.First && r.start.After(x.start) && !r.start.After(y.start) || r.Last && !r.start.Before(x.start) && r.start.Before(y.start)) {
			return false
		}
	}
	return true
}

// chains holds that the frames of each stream at a gateway are one behind the other.
func (h *history) chains(requests map[int]*request) {
	type stream struct {
		service *service
		gateway *gatewayProcess
		life    int
		name    string
	}
	all := map[stream][]*request{}
	for _, r := range requests {
		if r.service.films && r.Stream == "" && r.before != 0 {
			h.violate("frame %d of no stream has the state that frame %d left", r.id, r.before)
		}
		if r.Stream != "" && !r.otherKind {
			of := stream{r.service, r.gateway, r.life, r.Stream}
			all[of] = append(all[of], r)
		}
	}
	for _, frames := range all {
		slices.SortFunc(frames, func(a, b *request) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.id, b.id)) })
		last := -1
		for i, r := range frames {
			if r.place > 0 {
				h.follows(frames[max(last, 0):i+1], last >= 0)
				last = i
			}
		}
	}
}

// follows holds that the last of the frames, which was answered, has the state that the first of them left, which
// was answered before (unless it is the first of all), or that one between left which only a module answered; and
// that it has none where there is a reason, and only then.
func (h *history) follows(frames []*request, begun bool) {
	r, between := frames[len(frames)-1], frames[:len(frames)-1]
	if r.before == 0 {
		if begun && !begins(frames) {
			h.violate("frame %d of %q has lost the state that frame %d left, and nothing was wrong with that", r.id, r.Stream, frames[0].id)
		}
		return
	}
	at := slices.IndexFunc(between, func(b *request) bool { return b.id == r.before })
	switch {
	case at < 0:
		h.violate("frame %d of %q has the state that frame %d left, which is not one between that and the last that was answered", r.id, r.Stream, r.before)
		return
	case r.First || frames[at].Last:
		h.violate("frame %d of %q has the state that frame %d left, but it begins", r.id, r.Stream, r.before)
	}
	if !begun {
		return
	}
	if n := frames[0].place + at + 1; r.place > n || at == 0 && r.place != n {
		h.violate("frame %d is number %d of its stream, after frame %d, which is number %d, and %d others", r.id, r.place, frames[0].id, frames[0].place, at)
	}
}

// begins reports whether there is a reason for the last of the frames to have no state of the first one.
func begins(frames []*request) bool {
	first, last := frames[0], frames[len(frames)-1]
	if s := last.service; s.age(first.answered).Life != s.age(last.answered).Life { // nothing is kept of what is deleted
		return true
	}
	for i, r := range frames[1:] {
		before := frames[i]
		if r.First || before.Last || r.start.Sub(before.start) >= silent {
			return true
		}
		if slices.ContainsFunc(r.versions, func(v int) bool { return v != first.version }) {
			return true
		}
	}
	return false
}
