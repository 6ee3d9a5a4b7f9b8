package dispatcher

import "github.com/harpagon/harpagon/wire/queue"

// remoteIDs are those by which stations S are called. A station has one for as long as the
// other side knows a generation with it. Then its place is the next one's to come, whose
// number tells another life of the place: what the other side has said of the one before,
// and comes late, names nobody.
type remoteIDs[S comparable] struct {
	of     map[S]*numbered
	places []place[S]
	free   []uint64 // places without a station
}

// numbered is a station of generations that the other side knows.
type numbered struct {
	generations int
	number      uint64
	given       bool // it has the number
}

type place[S comparable] struct {
	station S
	lives   uint64 // before this one
}

// Use notes that the other side knows a generation with the stations.
func (n *remoteIDs[S]) Use(all []S) {
	if n.of == nil {
		n.of = make(map[S]*numbered)
	}
	for _, s := range all {
		if n.of[s] == nil {
			n.of[s] = new(numbered)
		}
		n.of[s].generations++
	}
}

// Leave notes that it does not any more.
func (n *remoteIDs[S]) Leave(all []S) {
	for _, s := range all {
		u := n.of[s]
		if u.generations--; u.generations > 0 {
			continue
		}
		delete(n.of, s)
		if u.given {
			at := queue.Place(u.number)
			n.places[at] = place[S]{lives: n.places[at].lives + 1}
			n.free = append(n.free, at)
		}
	}
}

// Number is that of a station of a generation that the other side knows.
func (n *remoteIDs[S]) Number(s S) uint64 {
	u := n.of[s]
	if u.given {
		return u.number
	}
	at := uint64(len(n.places))
	if k := len(n.free); k > 0 {
		at, n.free = n.free[k-1], n.free[:k-1]
	} else {
		n.places = append(n.places, place[S]{})
	}
	n.places[at].station = s
	u.number, u.given = queue.Station(at, n.places[at].lives), true
	return u.number
}

// Find is the station that has the number; the zero one where none has it now.
func (n *remoteIDs[S]) Find(number uint64) (none S) {
	at := queue.Place(number)
	if at >= uint64(len(n.places)) || number != queue.Station(at, n.places[at].lives) {
		return none
	}
	return n.places[at].station
}

// Given is the number that a station has, if it has one.
func (n *remoteIDs[S]) Given(s S) (number uint64, ok bool) {
	if u := n.of[s]; u != nil && u.given {
		return u.number, true
	}
	return 0, false
}
