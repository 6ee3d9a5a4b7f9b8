package functions

import "slices"

// Bounds of the search for better partitions than those into neighbours.
const (
	mostPolished = 200 // applications; beyond, neighbours are left as they are
	mostRounds   = 8
	leastGain    = 1e-9 // relative to what the two groups cost
)

// polish moves single applications to other groups, or to groups of their own,
// as long as that lowers the cost: groups of neighbours are not always best.
func (s *planner) polish(groups []cluster) []cluster {
	if len(s.apps) > mostPolished {
		return groups
	}
	for range mostRounds {
		moved := false
		for i := 0; i < len(groups); i++ {
			if s.ended() {
				return inOrder(groups)
			}
			for k := 0; k < len(groups[i].members); k++ {
				if next, ok := s.move(groups, i, k); ok {
					groups, moved = next, true
					break // the group has changed; the next round looks at it again
				}
			}
		}
		if !moved {
			break
		}
	}
	return inOrder(groups)
}

// move takes the k-th application out of the i-th group and puts it where it
// saves most; false where nothing is saved.
func (s *planner) move(groups []cluster, i, k int) ([]cluster, bool) {
	from := groups[i]
	if len(from.members) == 1 {
		return nil, false // merging is the business of the programme before
	}
	a := from.members[k]
	rest := s.cluster(slices.Delete(slices.Clone(from.members), k, k+1))
	before, left := spending(from.offer, from.demand), spending(rest.offer, rest.demand)
	best, at, into := 0.0, -1, cluster{}
	for j := 0; j <= len(groups); j++ {
		if j == i {
			continue
		}
		members, old := []app{a}, 0.0
		if j < len(groups) {
			members, old = insert(groups[j].members, a), spending(groups[j].offer, groups[j].demand)
		}
		g := s.cluster(members)
		gain := before + old - left - spending(g.offer, g.demand)
		if gain > best && gain > leastGain*(before+old) {
			best, at, into = gain, j, g
		}
	}
	if at < 0 {
		return nil, false
	}
	groups = slices.Clone(groups)
	groups[i] = rest
	if at == len(groups) {
		return append(groups, into), true
	}
	groups[at] = into
	return groups, true
}

// insert keeps the order of objectives.
func insert(members []app, a app) []app {
	i := slices.IndexFunc(members, func(m app) bool { return m.slo > a.slo })
	if i < 0 {
		i = len(members)
	}
	return slices.Insert(slices.Clone(members), i, a)
}
