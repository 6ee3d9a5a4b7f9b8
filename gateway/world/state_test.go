package world

import "time"

// unbroken is for how long no stream can have been silent for so long that it is over.
const unbroken = 8 * time.Second

// together notes the frames of a batch: of a stream there is one at the most.
func (h *history) together(module string, ids []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range ids {
		for _, b := range ids[:i] {
			x, y := h.requests[a], h.requests[b]
			if x.stream != "" && x.stream == y.stream && x.gateway == y.gateway && x.life == y.life && x.over.IsZero() && y.over.IsZero() {
				h.violations = append(h.violations, "module "+module+" is given two frames of a stream at once")
			}
		}
	}
}

// chains holds that the frames of a stream that a gateway has answered are one behind the other, each with the state
// that the one before has left: none was left out or came in twice, and none had the state of another stream.
func (h *history) chains(requests map[int]*request) {
	after := map[int]*request{}
	type stream struct {
		service *service
		gateway *gatewayProcess
		life    int
		name    string
	}
	fresh, generations := map[stream]int{}, map[stream]map[int]bool{}
	for _, r := range requests {
		if of := (stream{r.service, r.gateway, r.life, r.stream}); r.place != 0 && r.stream != "" {
			if generations[of] == nil {
				generations[of] = map[int]bool{}
			}
			if generations[of][r.answeredBy] = true; r.before == 0 && r.start.Sub(h.world.began) < unbroken {
				fresh[of]++
			}
		}
		if r.place == 0 || r.before == 0 {
			continue
		}
		before := requests[r.before]
		switch {
		case before == nil || before.service != r.service || before.gateway != r.gateway || before.life != r.life || before.stream != r.stream || r.stream == "":
			h.violate("frame %d of %q has the state that frame %d left, which is none of its stream", r.id, r.stream, r.before)
		case before.place != 0 && before.place != r.place-1:
			h.violate("frame %d is number %d of its stream, after frame %d, which is number %d", r.id, r.place, before.id, before.place)
		case before.start.After(r.start):
			h.violate("frame %d has the state of frame %d, which came later", r.id, before.id)
		case after[r.before] != nil:
			h.violate("frames %d and %d have both the state that frame %d left", r.id, after[r.before].id, r.before)
		}
		after[r.before] = r
	}
	for of, n := range fresh {
		if n > len(generations[of]) && !h.world.deletes { // of which nothing is kept
			h.violate("%q began %d times at %s, by %d generations", of.name, n, of.gateway.name, len(generations[of]))
		}
	}
}
