package exact

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// pack puts the residual rates of modules onto shared devices: by falling size, into
// the open device where it uses least before a new one is opened; then emptying
// devices as long as their parts find room elsewhere, and trading devices for
// cheaper kinds. only, where it is not empty, is the kind that is opened as
// long as a part can run on it. ok is false when one fits nowhere.
// held are devices of others that are open already; those that nothing is put on
// are left out in the end.
func (s *packer) pack(parts []assignment, order []int, only string, held []bin) (bins []bin, ok bool) {
	bins = slices.Clone(held)
	for _, i := range order {
		if parts[i].residual == 0 {
			continue
		}
		if !s.insert(bins, parts, i, -1) {
			b, ok := s.open(bins, parts, i, only)
			if !ok {
				return nil, false
			}
			bins = append(bins, b)
		}
	}
	bins = slices.DeleteFunc(bins, func(b bin) bool { return len(b.parts) == 0 })
	bins = s.closeDevices(bins, parts)
	for i := range bins {
		s.useCheaperKind(bins, i, parts)
	}
	return bins, true
}

// bySize orders the modules whose residual rate costs most first.
func bySize(parts []assignment) []int {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(parts[b].size, parts[a].size) })
	return order
}

// insert puts a residual rate into the open device where it adds least; except is a
// device that is left out.
func (s *packer) insert(bins []bin, parts []assignment, i, except int) bool {
	at, best, least := -1, bin{}, math.Inf(1)
	for k := range bins {
		if k == except || bins[k].total() >= 1 {
			continue
		}
		b, ok := s.arranged(bins[k].kind, bins[k].held, with(bins[k].parts, i), parts)
		if ok && b.use-bins[k].use < least {
			at, best, least = k, b, b.use-bins[k].use
		}
	}
	if at < 0 {
		return false
	}
	bins[at] = best
	return true
}

// open starts a new device for a residual rate: the cheapest that can run it.
func (s *packer) open(bins []bin, parts []assignment, i int, only string) (best bin, ok bool) {
	for _, h := range s.kinds {
		if !s.exists(h, bins, parts) {
			continue
		}
		if ok && (best.kind.hardware == only || h.hardware != only && h.weight >= best.kind.weight) {
			continue
		}
		if b, fits := s.arranged(h, nil, []int{i}, parts); fits {
			best, ok = b, true
		}
	}
	return best, ok
}

// with is a sorted set of parts with one more.
func with(parts []int, i int) []int {
	at, _ := slices.BinarySearch(parts, i)
	return slices.Insert(slices.Clip(slices.Clone(parts)), at, i)
}

// arrangement is what arrange found for some parts on a device.
type arrangement struct {
	bin bin
	ok  bool
}

// arranged is arrange, looked up where the same parts were arranged before.
func (s *packer) arranged(h sharedKind, held *plan.HeldDevice, members []int, parts []assignment) (bin, bool) {
	key := append(s.key[:0], byte(h.index))
	if held != nil {
		key = fmt.Appendf(key, "%p", held)
	}
	for _, i := range members {
		key = append(key, byte(i), byte(i>>8), byte(parts[i].by), byte(parts[i].by>>8))
	}
	s.key = key
	found, known := s.arrangements[string(key)]
	if !known {
		found.bin, found.ok = arrange(h, held, members, parts)
		for _, i := range members {
			s.work += mostDeadlines * len(parts[i].choices[h.index])
		}
		if s.arrangements != nil {
			s.arrangements[string(key)] = found
		}
	}
	return found.bin, found.ok
}

// closeDevices closes devices whose parts all fit elsewhere, least used first.
func (s *packer) closeDevices(bins []bin, parts []assignment) []bin {
	for {
		order := make([]int, len(bins))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bins[a].use, bins[b].use) })
		closed := false
		for _, k := range order {
			trial := slices.Clone(bins)
			all := true
			for _, i := range bins[k].parts {
				all = all && s.insert(trial, parts, i, k)
			}
			if all {
				bins, closed = slices.Delete(trial, k, k+1), true
				break
			}
		}
		if !closed {
			return bins
		}
	}
}

// useCheaperKind moves all parts of a device to a cheaper kind that can run them.
func (s *packer) useCheaperKind(bins []bin, at int, parts []assignment) {
	for _, h := range s.kinds {
		if bins[at].held == nil && plan.Cheaper(h.weight, bins[at].kind.weight) && s.exists(h, bins, parts) {
			if other, ok := s.arranged(h, nil, bins[at].parts, parts); ok {
				bins[at] = other
			}
		}
	}
}

// exists says whether there is one more device of a kind.
func (s *packer) exists(h sharedKind, bins []bin, parts []assignment) bool {
	return h.count == 0 || used(h, bins, parts)+1 <= float64(h.count)*(1+plan.RateTolerance)
}

// used is the number of devices of a kind in use, shared or not.
func used(h sharedKind, bins []bin, parts []assignment) float64 {
	n := 0.0
	for i := range parts {
		for k := range parts[i].dedicated {
			if t := &parts[i].dedicated[k]; t.Hardware == h.hardware {
				n += t.Charged()
			}
		}
	}
	for i := range bins {
		if bins[i].held == nil && bins[i].kind.hardware == h.hardware {
			n++
		}
	}
	return n
}
