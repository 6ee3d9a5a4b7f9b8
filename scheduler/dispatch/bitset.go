package dispatch

import "math/bits"

// bitset is a set of small whole numbers in two levels, so that the smallest
// is found by looking at a word per 4,096 numbers.
type bitset struct {
	low  []uint64 // one bit a number
	high []uint64 // one bit a word of low that is not zero
	N    int
}

// reserve makes room for numbers below keys.
func (s *bitset) reserve(keys int) {
	for len(s.low)*64 < keys {
		s.low = append(s.low, 0)
	}
	for len(s.high)*64 < len(s.low) {
		s.high = append(s.high, 0)
	}
}

func (s *bitset) has(i int32) bool { return s.low[i>>6]&(1<<(i&63)) != 0 }

func (s *bitset) add(i int32) {
	if s.has(i) {
		return
	}
	s.low[i>>6] |= 1 << (i & 63)
	s.high[i>>12] |= 1 << (i >> 6 & 63)
	s.N++
}

func (s *bitset) remove(i int32) {
	if !s.has(i) {
		return
	}
	s.low[i>>6] &^= 1 << (i & 63)
	if s.low[i>>6] == 0 {
		s.high[i>>12] &^= 1 << (i >> 6 & 63)
	}
	s.N--
}

// All yields the numbers in the set, rising. It must not change meanwhile.
func (s *bitset) All(yield func(int32) bool) {
	for l, word := range s.low {
		for ; word != 0; word &= word - 1 {
			if !yield(int32(l<<6 | bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// First is the smallest number in the set, or -1.
func (s *bitset) First() int32 {
	for h, word := range s.high {
		if word != 0 {
			l := h<<6 | bits.TrailingZeros64(word)
			return int32(l<<6 | bits.TrailingZeros64(s.low[l]))
		}
	}
	return -1
}
